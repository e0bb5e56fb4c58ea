#include "tests/bench/report.h"

#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"

namespace bench {
namespace {

using moepack::Cat;
using moepack::Json;

const char* VerdictText(const Row& row) {
  switch (row.verdict) {
    case Verdict::kMet:
      return "met";
    case Verdict::kMissed:
      return "**missed**";
    case Verdict::kNone:
      break;
  }
  return "";
}

// "model name : X" of /proc/cpuinfo.
std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

// The widest vectors that decide how fast kernels are here.
std::string Vectors() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return "AVX-512";
  return __builtin_cpu_supports("avx2") ? "AVX2" : "SSE4";
#else
  return "NEON";
#endif
}

// By the magic numbers of statfs(2).
std::string FileSystemName(const std::string& directory) {
  struct statfs about = {};
  if (statfs(directory.c_str(), &about) != 0) return "unknown";
  switch (static_cast<unsigned long>(about.f_type)) {
    case 0xEF53:
      return "ext4";
    case 0x58465342:
      return "xfs";
    case 0x9123683E:
      return "btrfs";
    case 0x01021994:
      return "tmpfs";
    case 0x794C7630:
      return "overlayfs";
    default:
      return Cat("type ", about.f_type);
  }
}

// Much more than 1 means that other programs were running and the figures are too low.
std::string LoadAverage() {
  double load = 0;
  if (getloadavg(&load, 1) != 1) return "unknown";
  char text[16];
  std::snprintf(text, sizeof text, "%.1f", load);
  return text;
}

std::string Today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  char text[16];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d", &parts)};
}

Json Machine(const Report& report) {
  utsname system = {};
  uname(&system);
  const auto memory =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return {{"processor", ProcessorName()},
          {"vectors", Vectors()},
          {"cores", sysconf(_SC_NPROCESSORS_ONLN)},
          {"memory", moepack::FormatBytes(memory)},
          {"file system", FileSystemName(report.scratch)},
          {"kernel", system.release},
          {"load average when done", LoadAverage()},
          {"compiler", MOEPACK_COMPILER},
          {"date", Today()}};
}

Json DocumentOrNull(const std::string& path) {
  auto document = moepack::ReadJsonFile(path);
  return document ? std::move(*document) : Json();
}

// Google Benchmark's JSON; an empty list when the file is not there.
Json MicroResults(const Report& report) {
  auto document = moepack::ReadJsonFile(report.micro_json);
  if (!document) return Json::array();
  return document->value("benchmarks", Json::array());
}

std::string MicroRate(const Json& benchmark) {
  if (benchmark.contains("bytes_per_second")) {
    const double rate = benchmark["bytes_per_second"].get<double>();
    return moepack::FormatBytes(static_cast<uint64_t>(rate)) + "/s";
  }
  const double rate = benchmark.value("items_per_second", 0.0);
  return moepack::FormatCount(static_cast<uint64_t>(rate)) + " per second";
}

void WriteRow(std::ostream& out, const std::vector<std::string>& cells) {
  out << '|';
  for (const std::string& cell : cells) out << ' ' << cell << " |";
  out << '\n';
}

void WriteMicroTable(std::ostream& out, const Json& benchmarks) {
  out << "\n## Single functions\n\nFrom memory, one thread (Google Benchmark).\n\n";
  WriteRow(out, {"function", "time", "rate"});
  WriteRow(out, {"---", "---", "---"});
  for (const Json& benchmark : benchmarks) {
    char time[32];
    std::snprintf(time, sizeof time, "%.2f ms", benchmark.value("real_time", 0.0));
    WriteRow(out, {benchmark.value("name", ""), time, MicroRate(benchmark)});
  }
}

constexpr const char* kMethod =
    R"(Written by `make bench`; do not edit. [One report](benchmarks.md) is of a machine with
AVX-512, [another](benchmarks-avx2.md) of one without. Figures are medians of several processes;
moepack and what it is compared with take turns. *Warm*: every byte to be read was in the page
cache, as far as it fits; *cold*: none was. `cp` is followed by fsync of every file, as moepack
flushes too (the target compares with this), or plain. *Over loopback* is a web server of the
benchmark on the same cores; *late* is its pause before every answer. Peak memory is `ru_maxrss`,
with mapped files.

Prompts are measured with the logits of every token, and with those of the last, for which llama.cpp
skips most of the last layer ([what limits the speed](runtime-internals.md#what-limits-the-speed)).
)";

// The report has no figures of GPUs: few machines that run it have one.
constexpr char kCudaText[] =
    "This report runs nothing on a GPU; `bench-cuda` does, and its figures for one are in\n"
    "[runtime-internals.md](runtime-internals.md#on-a-gpu).\n";

}  // namespace

void PrintTable(const std::vector<Row>& rows) {
  size_t width = 0;
  for (const Row& row : rows) width = std::max(width, row.work.size());
  for (const Row& row : rows) {
    std::cout << row.work << std::string(width - row.work.size() + 2, ' ') << row.figure;
    if (!row.measured.empty()) std::cout << "  (" << row.measured;
    if (!row.beside.empty()) std::cout << "; " << row.beside;
    if (!row.measured.empty()) std::cout << ")";
    if (!row.target.empty()) std::cout << "  target " << row.target << ": ";
    std::cout << (row.verdict == Verdict::kMissed ? "missed" : VerdictText(row)) << '\n';
  }
}

Status WriteMarkdown(const Report& report, const fs::path& path) {
  std::ofstream out(path, std::ios::trunc);
  out << "# Benchmarks\n\n" << kMethod << '\n' << kCudaText << '\n';
  if (report.quick) out << "Made with MOEPACK_BENCH_QUICK: small sizes, not to be quoted.\n\n";
  const Json machine = Machine(report);
  for (const auto& [key, value] : machine.items()) {
    out << "- " << key << ": " << (value.is_string() ? value.get<std::string>() : value.dump())
        << '\n';
  }
  out << "\n## Whole processes\n\n";
  WriteRow(out, {"work", "moepack", "beside it", "figure", "target", ""});
  WriteRow(out, {"---", "---", "---", "---", "---", "---"});
  for (const Row& row : report.rows) {
    WriteRow(out, {row.work, row.measured, row.beside, row.figure, row.target, VerdictText(row)});
  }
  WriteQuantTables(out, report.quant);
  WriteMicroTable(out, MicroResults(report));
  out.close();
  if (!out) return moepack::Error{moepack::Code::kIo, Cat(path.string(), ": cannot be written")};
  return moepack::Ok();
}

Status WriteReportJson(const Report& report, const fs::path& path) {
  Json document = {{"machine", Machine(report)}, {"quick", report.quick}};
  for (const Row& row : report.rows) {
    document["rows"].push_back({{"work", row.work},
                                {"measured", row.measured},
                                {"beside", row.beside},
                                {"figure", row.figure},
                                {"target", row.target},
                                {"met", row.verdict != Verdict::kMissed}});
  }
  for (const Series& series : report.series) {
    Json samples = Json::array();
    for (const Sample& sample : series.samples) {
      samples.push_back({{"seconds", sample.seconds},
                         {"cpu_seconds", sample.cpu_seconds},
                         {"peak_bytes", sample.peak_bytes}});
    }
    document["series"][series.name] = samples;
  }
  document["micro"] = MicroResults(report);
  document["quant"] = DocumentOrNull(report.quant.benchmarks);
  document["instructions"] = DocumentOrNull(report.quant.instructions);
  std::ofstream out(path, std::ios::trunc);
  out << moepack::WriteJson(document);
  out.close();
  if (!out) return moepack::Error{moepack::Code::kIo, Cat(path.string(), ": cannot be written")};
  return moepack::Ok();
}

}  // namespace bench
