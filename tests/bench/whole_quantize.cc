// build --quantize: the gain from a second core, and how close the run comes to its slowest part.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "libshard/base/text/text.h"
#include "tests/bench/encode_alone.h"
#include "tests/bench/whole_run.h"

namespace bench {
namespace {

using moepack::Cat;

constexpr double kTwoCores = 1.9;            // times as fast as one
constexpr double kOfSlowest = 1.2;           // times as long as the slowest part alone
constexpr uint64_t kMostBytes = 128u << 20;  // what --memory allows

// The first `count` cores that this process may use, as a list for taskset; "" if there are fewer.
std::string CoreList(size_t count) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return "";
  std::string list;
  for (size_t core = 0; core < CPU_SETSIZE && count > 0; ++core) {
    if (!CPU_ISSET(core, &allowed)) continue;
    list += (list.empty() ? "" : ",") + std::to_string(core);
    --count;
  }
  return count == 0 ? list : "";
}

// The largest safetensors file: that of the experts.
fs::path LargestFile(const fs::path& tree) {
  fs::path largest;
  uint64_t most = 0;
  for (const auto& entry : fs::recursive_directory_iterator(tree)) {
    if (!entry.is_regular_file() || entry.file_size() < most) continue;
    most = entry.file_size();
    largest = entry.path();
  }
  return largest;
}

std::string Seconds(const Series& series) { return Fixed(MedianSeconds(series.samples), 2) + " s"; }

// Compares the runs of the same repetition, so that slow phases of the machine cancel out.
double MedianRatio(const Series& above, const Series& below) {
  std::vector<double> ratios;
  for (size_t i = 0; i < above.samples.size(); ++i) {
    ratios.push_back(above.samples[i].seconds / below.samples[i].seconds);
  }
  std::sort(ratios.begin(), ratios.end());
  return ratios[ratios.size() / 2];
}

}  // namespace

Status Run::TakeQuantizeTurn(QuantizeRuns& runs) {
  const fs::path source = In("source"), out = In("out"), copy = In("copy");
  const auto build = [&](size_t cores) -> Result<Sample> {
    Command command = {options_.moepack,
                       "build",
                       source.string(),
                       "--groups",
                       "4",
                       "--quantize",
                       "Q4_K_M",
                       "--pre",
                       "qwen2",
                       "--no-verify",
                       "--memory",
                       "128M",
                       "--jobs",
                       std::to_string(cores),
                       "-o",
                       out.string()};
    const Command pinned = {"taskset", "-c", CoreList(cores)};
    command.insert(command.begin(), pinned.begin(), pinned.end());
    return WriteFresh(out, [&] { return RunCommand(command); });
  };
  SHARD_TRY(Sample one, build(1));
  runs.one.samples.push_back(one);
  if (CoreList(2).empty()) return moepack::Ok();
  SHARD_TRY(Sample two, build(2));
  runs.two.samples.push_back(two);
  SHARD_TRY(Sample reading, ReadAlone(source));
  runs.reading.samples.push_back(reading);
  SHARD_TRY(Sample encoding, EncodeAlone(out, LargestFile(source), 2));
  runs.encoding.samples.push_back(encoding);
  sync();
  SHARD_TRY(Sample writing, WriteAlone(out, copy));
  runs.writing.samples.push_back(writing);
  fs::remove_all(copy);
  return moepack::Ok();
}

void Run::AddQuantizeRows(const std::string& name, const QuantizeRuns& runs,
                          uint64_t source_bytes) {
  const double weights = static_cast<double>(source_bytes) / 2;  // BF16
  const auto add = [&](const Series& series, const char* cores) {
    const double rate = weights / MedianSeconds(series.samples);
    report_.rows.push_back({.work = Cat(name, ", ", cores),
                            .measured = Speed(series.samples, source_bytes),
                            .figure = Cat(Fixed(rate / 1e6, 1), " million weights per second")});
  };
  add(runs.one, "one core");
  std::vector<Sample> all = runs.one.samples;
  if (!runs.two.samples.empty()) {
    add(runs.two, "two cores");
    const double faster = MedianRatio(runs.one, runs.two);
    report_.rows.push_back({.work = Cat(name, ": two cores beside one"),
                            .measured = Seconds(runs.two),
                            .beside = Seconds(runs.one),
                            .figure = Fixed(faster, 2) + " times as fast",
                            .target = "at least 1.9",
                            .verdict = Judge(faster >= kTwoCores)});
    const Series& slowest =
        *std::max_element(&runs.reading, &runs.writing + 1, [](const Series& a, const Series& b) {
          return MedianSeconds(a.samples) < MedianSeconds(b.samples);
        });
    const double longer = MedianRatio(runs.two, slowest);
    report_.rows.push_back(
        {.work = Cat(name, ", two cores: beside its slowest part alone"),
         .measured = Seconds(runs.two),
         .beside = Cat("reading ", Seconds(runs.reading), ", encoding ", Seconds(runs.encoding),
                       ", writing ", Seconds(runs.writing)),
         .figure = Fixed(longer, 2) + " times as long",
         .target = "at most 1.2",
         .verdict = Judge(longer <= kOfSlowest)});
    all.insert(all.end(), runs.two.samples.begin(), runs.two.samples.end());
  }
  const uint64_t peak = HighestPeak(all);
  report_.rows.push_back({.work = Cat(name, ": peak memory with --memory 128M"),
                          .figure = moepack::FormatBytes(peak),
                          .target = "at most 128 MiB",
                          .verdict = Judge(peak <= kMostBytes)});
}

Status Run::Quantize(uint32_t experts, int repetitions) {
  const fs::path source = In("source"), out = In("out");
  SHARD_CHECK(MakeCheckpoint(
      source, {"--layers", "1", "--experts", std::to_string(experts), "--hidden", "2048", "--ff",
               "768", "--top-k", "8", "--head-size", "128", "--vocabulary", "4096"}));
  const std::string name = Cat("build --quantize Q4_K_M, 1 layer of ", experts, " experts");
  QuantizeRuns runs{{name + ", one core", {}},
                    {name + ", two cores", {}},
                    {name + ", reading alone", {}},
                    {name + ", encoding alone", {}},
                    {name + ", writing alone", {}}};
  for (int i = 0; i < repetitions; ++i) {
    std::cerr << name << ": " << i + 1 << " of " << repetitions << '\n';
    SHARD_CHECK(TakeQuantizeTurn(runs));
  }
  AddQuantizeRows(name, runs, TreeBytes(source));
  for (Series* series : {&runs.one, &runs.two, &runs.reading, &runs.encoding, &runs.writing}) {
    report_.series.push_back(std::move(*series));
  }
  fs::remove_all(source);
  fs::remove_all(out);
  return moepack::Ok();
}

}  // namespace bench
