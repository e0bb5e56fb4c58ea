#include "tests/bench/quant_report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>
#include <vector>

#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"

namespace bench {
namespace {

using moepack::Cat;
using moepack::Json;

// The smallest ratio to ggml of one type: on the machine's widest instruction set, and on AVX2
// where that has its own target.
struct QuantTarget {
  const char* type;
  double plain, importance;
  double avx2 = 0;
};

constexpr std::array kTargets = {
    QuantTarget{"q4_K", 12, 12, 8}, QuantTarget{"q5_K", 12, 12, 8}, QuantTarget{"q2_K", 12, 12, 8},
    QuantTarget{"q6_K", 5, 5},      QuantTarget{"q3_K", 5, 5},      QuantTarget{"iq4_xs", 5, 5},
    QuantTarget{"iq4_nl", 5, 5},    QuantTarget{"q4_0", 1, 5},      QuantTarget{"q4_1", 1, 5},
    QuantTarget{"q5_0", 1, 5},      QuantTarget{"q5_1", 1, 5},      QuantTarget{"q8_0", 1, 1},
    QuantTarget{"f16", 1, 1},       QuantTarget{"bf16", 1, 1},      QuantTarget{"mxfp4", 1, 1},
    QuantTarget{"iq2_xxs", 5, 5},   QuantTarget{"iq2_xs", 5, 5},    QuantTarget{"iq2_s", 5, 5},
    QuantTarget{"iq3_xxs", 5, 5},   QuantTarget{"iq3_s", 5, 5},     QuantTarget{"iq1_s", 5, 5},
    QuantTarget{"iq1_m", 5, 5},     QuantTarget{"tq1_0", 5, 5},     QuantTarget{"tq2_0", 5, 5},
    QuantTarget{"nvfp4", 5, 5}};

// encode/q4_K/importance/AVX-512
struct Name {
  std::string work, type, mode, set;
};

Name Split(const std::string& name) {
  std::array<std::string, 4> parts;
  size_t part = 0;
  for (const char c : name) {
    if (c == '/' && part < 3) {
      ++part;
    } else {
      parts[part] += c;
    }
  }
  // Google Benchmark adds "/iterations:15/manual_time".
  return {parts[0], parts[1], parts[2], parts[3].substr(0, parts[3].find('/'))};
}

// The measurements of one type, plain or with importance, widest instruction set first.
struct Line {
  std::string type, mode;
  std::vector<std::string> sets;
  std::vector<Json> found;

  double Ratio(size_t i) const { return found[i].value("ratio", 0.0); }
  const Json* On(const std::string& set) const {
    const auto at = std::find(sets.begin(), sets.end(), set);
    return at == sets.end() ? nullptr : &found[static_cast<size_t>(at - sets.begin())];
  }
};

std::vector<Line> LinesOf(const Json& document, const std::string& work) {
  std::vector<Line> lines;
  for (const Json& item : document.value("benchmarks", Json::array())) {
    const Name name = Split(item.value("name", ""));
    if (name.work != work) continue;
    auto line = std::find_if(lines.begin(), lines.end(), [&](const Line& other) {
      return other.type == name.type && other.mode == name.mode;
    });
    if (line == lines.end()) {
      lines.push_back({.type = name.type, .mode = name.mode, .sets = {}, .found = {}});
      line = lines.end() - 1;
    }
    line->sets.push_back(name.set);
    line->found.push_back(item);
  }
  return lines;
}

std::string Fixed(double value, const char* format) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string RatioCell(const Json* item) {
  if (item == nullptr) return "";
  if (item->value("error_occurred", false)) return "**" + item->value("error_message", "") + "**";
  return item->contains("ratio") ? Fixed((*item)["ratio"].get<double>(), "%.1f") : "no ggml";
}

std::string RateCell(const Json& item, const char* key) {
  return item.contains(key) ? Fixed(item[key].get<double>() / 1e6, "%.0f") : "";
}

struct Judged {
  std::string target, verdict;
};

Judged Judge(const Line& line) {
  for (const QuantTarget& target : kTargets) {
    if (line.type != target.type) continue;
    const double least = line.mode == "plain" ? target.plain : target.importance;
    Judged judged{Fixed(least, "%g"), ""};
    if (target.avx2 > 0) judged.target += Cat(", AVX2 ", Fixed(target.avx2, "%g"));
    if (!line.found.front().contains("ratio")) return judged;
    // A machine without AVX-512 is held to the AVX2 target.
    const bool narrow = target.avx2 > 0 && line.sets.front() != "AVX-512";
    bool met = line.Ratio(0) >= (narrow ? target.avx2 : least);
    const Json* avx2 = line.On("AVX2");
    if (target.avx2 > 0 && avx2 != nullptr) met = met && avx2->value("ratio", 0.0) >= target.avx2;
    judged.verdict = met ? "met" : "**missed**";
    return judged;
  }
  return {};
}

void WriteRow(std::ostream& out, const std::vector<std::string>& cells) {
  out << '|';
  for (const std::string& cell : cells) out << ' ' << cell << " |";
  out << '\n';
}

void WriteHead(std::ostream& out, const std::vector<std::string>& cells) {
  WriteRow(out, cells);
  WriteRow(out, std::vector<std::string>(cells.size(), "---"));
}

constexpr const char* kEncoderMethod =
    R"(The same rows in the same process, one thread, in turns; the figures of instruction sets are
the times of ggml divided by ours, medians over the turns. Every measurement has compared the bytes
first: a difference is an error and stands here as one. Rates are those of the widest set.

)";

void WriteEncoders(std::ostream& out, const std::vector<Line>& lines) {
  out << "\n## Encoders beside ggml\n\n" << kEncoderMethod;
  std::vector<std::string> head = {"type", "importance"};
  head.insert(head.end(), lines.front().sets.begin(), lines.front().sets.end());
  for (const char* more : {"M weights/s", "ggml's", "target", ""}) head.emplace_back(more);
  WriteHead(out, head);
  for (const Line& line : lines) {
    std::vector<std::string> cells = {line.type, line.mode == "plain" ? "no" : "yes"};
    for (const std::string& set : lines.front().sets) cells.push_back(RatioCell(line.On(set)));
    cells.push_back(RateCell(line.found.front(), "values_per_second"));
    cells.push_back(RateCell(line.found.front(), "peer_values_per_second"));
    const Judged judged = Judge(line);
    cells.insert(cells.end(), {judged.target, judged.verdict});
    WriteRow(out, cells);
  }
}

constexpr const char* kDecoderMethod =
    R"(As above: the times of ggml divided by ours on each instruction set, and rates of the widest.
Every measurement has compared the floats with the reference's and ggml's. ggml has one form of
these functions, for SSE2, and none for some types. At least 1.0 is asked.

)";

void WriteDecoders(std::ostream& out, const std::vector<Line>& lines) {
  out << "\n## Decoders beside ggml\n\n" << kDecoderMethod;
  std::vector<std::string> head = {"type"};
  head.insert(head.end(), lines.front().sets.begin(), lines.front().sets.end());
  head.insert(head.end(), {"M values/s", "ggml's"});
  WriteHead(out, head);
  for (const Line& line : lines) {
    std::vector<std::string> cells = {line.type};
    for (const std::string& set : lines.front().sets) cells.push_back(RatioCell(line.On(set)));
    cells.push_back(RateCell(line.found.front(), "values_per_second"));
    cells.push_back(RateCell(line.found.front(), "peer_values_per_second"));
    WriteRow(out, cells);
  }
}

// Types are rows, instruction sets and ggml columns.
void WriteInstructions(std::ostream& out, const Json& counted) {
  out << "\n## Instructions per weight\n\n";
  if (!counted.contains("cases")) {
    out << "Not counted: " << counted.value("reason", "bench-instructions did not run") << "\n";
    return;
  }
  out << "Of the encoders, counted by " << counted.value("tool", "") << ".\n\n";
  std::vector<std::string> sets;
  for (const Json& item : counted["cases"]) {
    const std::string set = item.value("set", "");
    if (std::find(sets.begin(), sets.end(), set) == sets.end()) sets.push_back(set);
  }
  std::vector<std::string> head = {"type", "importance"};
  head.insert(head.end(), sets.begin(), sets.end());
  WriteHead(out, head);
  std::vector<std::string> cells;
  for (const Json& item : counted["cases"]) {
    if (cells.empty()) {
      cells = {item.value("type", ""), item.value("importance", false) ? "yes" : "no"};
    }
    cells.push_back(Fixed(item.value("instructions_per_weight", 0.0), "%.1f"));
    if (cells.size() < head.size()) continue;
    WriteRow(out, cells);
    cells.clear();
  }
}

}  // namespace

void WriteQuantTables(std::ostream& out, const QuantFiles& files) {
  const auto benchmarks = moepack::ReadJsonFile(files.benchmarks);
  if (!benchmarks) return;
  const std::vector<Line> encoders = LinesOf(*benchmarks, "encode");
  const std::vector<Line> decoders = LinesOf(*benchmarks, "decode");
  if (!encoders.empty()) WriteEncoders(out, encoders);
  if (const auto counted = moepack::ReadJsonFile(files.instructions)) {
    WriteInstructions(out, *counted);
  }
  if (!decoders.empty()) WriteDecoders(out, decoders);
}

}  // namespace bench
