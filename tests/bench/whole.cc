// make bench: shard-experts beside cp, verify beside reading, quantizing, and list-tensors on
// 100,000 tensors, as whole processes on generated checkpoints.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>

#include "libshard/base/text/text.h"
#include "tests/bench/whole_run.h"

namespace bench {
namespace {

using moepack::Cat;

constexpr double kOfPeer = 0.9;           // of cp, of reading
constexpr uint64_t kMostMemory = 100e6;   // resident, whatever the model
constexpr double kMostListSeconds = 0.5;  // 100,000 tensors

}  // namespace

std::string Fixed(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string Speed(const std::vector<Sample>& samples, uint64_t bytes) {
  const double seconds = MedianSeconds(samples);
  const auto rate = static_cast<uint64_t>(static_cast<double>(bytes) / seconds);
  return Cat(Fixed(seconds, 2), " s, ", moepack::FormatBytes(rate), "/s");
}

Run::Run(const Options& options) : options_(options) {
  report_.scratch = options.scratch.string();
  report_.micro_json = options.micro_json;
  report_.quant = {options.quant_json, options.instructions_json};
  report_.quick = options.quick;
}

Status Run::MakeCheckpoint(const fs::path& where, const Command& size) {
  std::cerr << "making " << where.string() << ": " << size[1] << '\n';
  Command command = {options_.make_fixtures, "qwen3-moe", where.string()};
  command.insert(command.end(), size.begin(), size.end());
  SHARD_CHECK(RunCommand(command));
  return FlushTree(where);
}

Result<Sample> Run::WriteFresh(const fs::path& output, const Step& step) {
  fs::remove_all(output);
  sync();
  SHARD_CHECK(WarmTree(In("source")));
  return step();
}

void Run::AddRatio(Row row, const Series& ours, const Series& peer, uint64_t bytes) {
  const double ratio = MedianSeconds(peer.samples) / MedianSeconds(ours.samples);
  row.measured = Speed(ours.samples, bytes);
  row.beside = Speed(peer.samples, bytes);
  row.figure = Fixed(ratio, 2) + row.figure;
  if (!row.target.empty()) row.verdict = Judge(ratio >= kOfPeer);
  report_.rows.push_back(row);
}

Status Run::MeasureWriting(const std::string& size, int repetitions) {
  const fs::path source = In("source"), copy = In("copy"), out = In("out");
  const Command cp = {"cp", "-r", source.string(), copy.string()};
  // Without fill, trunk and groups hold every source byte once: the same bytes as cp writes.
  const Command shard = {
      options_.moepack, "shard-experts", source.string(), "--groups", "4", "--no-uniform", "-o",
      out.string()};
  Series ours{Cat("shard-experts ", size), {}}, flushed{Cat("cp and fsync ", size), {}},
      plain{Cat("cp ", size), {}};
  for (int i = 0; i < repetitions; ++i) {
    std::cerr << "shard-experts and cp, " << size << ": " << i + 1 << " of " << repetitions << '\n';
    SHARD_TRY(Sample cp_plain, WriteFresh(copy, [&] { return RunCommand(cp); }));
    plain.samples.push_back(cp_plain);
    SHARD_TRY(Sample cp_flushed, WriteFresh(copy, [&]() -> Result<Sample> {
                const auto start = std::chrono::steady_clock::now();
                SHARD_TRY(Sample sample, RunCommand(cp));
                SHARD_CHECK(FlushTree(copy));
                const std::chrono::duration<double> all = std::chrono::steady_clock::now() - start;
                sample.seconds = all.count();
                return sample;
              }));
    flushed.samples.push_back(cp_flushed);
    fs::remove_all(copy);
    SHARD_TRY(Sample sharded, WriteFresh(out, [&] { return RunCommand(shard); }));
    ours.samples.push_back(sharded);
  }
  const uint64_t bytes = TreeBytes(source);
  AddRatio({.work = Cat("shard-experts, ", size, ", warm; beside cp and fsync"),
            .figure = " of cp",
            .target = "at least 0.9"},
           ours, flushed, bytes);
  AddRatio({.work = Cat("shard-experts, ", size, ", warm; beside plain cp"), .figure = " of cp"},
           ours, plain, bytes);
  const uint64_t peak = HighestPeak(ours.samples);
  report_.rows.push_back({.work = Cat("shard-experts, ", size, ": peak memory"),
                          .figure = moepack::FormatBytes(peak),
                          .target = "under 100 MB",
                          .verdict = Judge(peak < kMostMemory)});
  for (Series* series : {&ours, &flushed, &plain}) report_.series.push_back(std::move(*series));
  return moepack::Ok();
}

Status Run::MeasureReading(const std::string& size, int repetitions, bool warm) {
  const fs::path out = In("out");
  const std::string state = warm ? "warm" : "cold";
  const Command verify = {options_.moepack, "verify", out.string()};
  Command cat = {"cat"};
  for (const auto& entry : fs::recursive_directory_iterator(out)) {
    if (entry.is_regular_file()) cat.push_back(entry.path().string());
  }
  Series ours{Cat("verify ", size, " ", state), {}}, peer{Cat("cat ", size, " ", state), {}};
  for (int i = 0; i < repetitions; ++i) {
    std::cerr << "verify and cat, " << size << ", " << state << ": " << i + 1 << " of "
              << repetitions << '\n';
    SHARD_CHECK(warm ? WarmTree(out) : ChillTree(out));
    SHARD_TRY(Sample read, RunCommand(cat));
    peer.samples.push_back(read);
    SHARD_CHECK(warm ? WarmTree(out) : ChillTree(out));
    SHARD_TRY(Sample verified, RunCommand(verify));
    ours.samples.push_back(verified);
  }
  AddRatio({.work = Cat("verify, ", size, ", ", state, "; beside cat"),
            .figure = " of reading",
            .target = warm ? "" : "at least 0.9"},
           ours, peer, TreeBytes(out));
  for (Series* series : {&ours, &peer}) report_.series.push_back(std::move(*series));
  return moepack::Ok();
}

Status Run::Shard(uint64_t bytes, int repetitions) {
  const std::string size = moepack::FormatBytes(bytes);
  // The source and one copy at a time, and a tenth for other files on this disk.
  const uint64_t needed = bytes * 2 + bytes / 5;
  if (const uint64_t free = fs::space(options_.scratch).available; free < needed) {
    return moepack::Error{
        moepack::Code::kIo,
        Cat(options_.scratch.string(), ": free space: expected ", moepack::FormatBytes(needed),
            ", found ", moepack::FormatBytes(free)),
        "set MOEPACK_BENCH_DIR to a folder with more space, or MOEPACK_BENCH_QUICK=1"};
  }
  SHARD_CHECK(MakeCheckpoint(In("source"), {"--bytes", std::to_string(bytes)}));
  SHARD_CHECK(MeasureWriting(size, repetitions));
  fs::remove_all(In("source"));
  SHARD_CHECK(MeasureReading(size, repetitions, false));
  SHARD_CHECK(MeasureReading(size, repetitions, true));
  fs::remove_all(In("out"));
  return moepack::Ok();
}

Status Run::List(uint64_t tensors, int repetitions) {
  const fs::path source = In("many-tensors");
  SHARD_CHECK(MakeCheckpoint(source, {"--tensors", std::to_string(tensors)}));
  for (const std::string option : {"", "--json", "--summary"}) {
    Command command = {options_.moepack, "list-tensors", source.string()};
    if (!option.empty()) command.push_back(option);
    Series series{option.empty() ? "list-tensors" : "list-tensors " + option, {}};
    for (int i = 0; i < repetitions; ++i) {
      SHARD_TRY(Sample sample, RunCommand(command));
      series.samples.push_back(sample);
    }
    const double seconds = MedianSeconds(series.samples);
    report_.rows.push_back(
        {.work = Cat(series.name, ", ", moepack::FormatCount(tensors), " tensors"),
         .figure = Fixed(seconds, 3) + " s",
         .target = "under 0.5 s",
         .verdict = Judge(seconds < kMostListSeconds)});
    report_.series.push_back(std::move(series));
  }
  fs::remove_all(source);
  return moepack::Ok();
}

namespace {

Status MeasureRemote(Run& run, bool quick) {
  SHARD_CHECK(run.RemoteList(60'000'000'000));
  SHARD_CHECK(run.RemoteGroup());
  return quick ? run.RemoteQuantize(400'000'000, 3) : run.RemoteQuantize(6'000'000'000, 3);
}

Status MeasureRegistry(Run& run, bool quick) {
  return quick ? run.Registry(200'000'000, 3) : run.Registry(1'500'000'000, 5);
}

Status MeasureRuntime(Run& run, bool quick) {
  return quick ? run.Throughput(32, 2, 1) : run.Throughput(128, 8, 5);
}

Status MeasureFit(Run& run, bool quick) { return quick ? run.Fit(8, 4, 1) : run.Fit(16, 16, 3); }

// What `--only` names, in the order of the report.
struct Part {
  const char* name;
  Status (*measure)(Run& run, bool quick);
};

constexpr Part kParts[] = {
    {"list", [](Run& run, bool) { return run.List(100'000, 7); }},
    {"quantize",
     [](Run& run, bool quick) { return quick ? run.Quantize(32, 3) : run.Quantize(128, 5); }},
    {"load", [](Run& run, bool quick) { return quick ? run.Load(32, 3) : run.Load(128, 5); }},
    {"runtime", [](Run& run, bool quick) { return MeasureRuntime(run, quick); }},
    {"fit", [](Run& run, bool quick) { return MeasureFit(run, quick); }},
    {"remote", [](Run& run, bool quick) { return MeasureRemote(run, quick); }},
    {"registry", [](Run& run, bool quick) { return MeasureRegistry(run, quick); }},
    {"shard",
     [](Run& run, bool quick) {
       return quick ? run.Shard(200'000'000, 3) : run.Shard(2'000'000'000, 5);
     }},
    {"shard-large",
     [](Run& run, bool quick) { return quick ? moepack::Ok() : run.Shard(8'000'000'000, 3); }},
};

Status Measure(const Options& options) {
  Run run(options);
  for (const Part& part : kParts) {
    if (options.only.empty() || std::ranges::find(options.only, part.name) != options.only.end())
      SHARD_CHECK(part.measure(run, options.quick));
  }
  PrintTable(run.report().rows);
  if (!options.only.empty()) return moepack::Ok();
  SHARD_CHECK(WriteReportJson(run.report(), options.json));
  return WriteMarkdown(run.report(), options.markdown);
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  bench::Options options;
  CLI::App app("whole-process benchmarks");
  std::string scratch;
  app.add_option("--moepack", options.moepack)->required();
  app.add_option("--make-fixtures", options.make_fixtures)->required();
  app.add_option("--scratch", scratch)->required();
  app.add_option("--micro", options.micro_json)->required();
  app.add_option("--quant", options.quant_json)->required();
  app.add_option("--instructions", options.instructions_json)->required();
  app.add_option("--markdown", options.markdown)->required();
  app.add_option("--json", options.json)->required();
  app.add_flag("--quick", options.quick);
  std::vector<std::string> names;
  for (const bench::Part& part : bench::kParts) names.emplace_back(part.name);
  app.add_option("--only", options.only, "measure and print these parts, and write no report")
      ->check(CLI::IsMember(names));
  CLI11_PARSE(app, argc, argv);
  options.scratch = bench::fs::path(scratch) / "scratch";
  bench::fs::remove_all(options.scratch);
  bench::fs::create_directories(options.scratch);
  const bench::Status status = bench::Measure(options);
  bench::fs::remove_all(options.scratch);
  if (status) return 0;
  std::cerr << "error: " << status.error().message << '\n';
  if (!status.error().hint.empty()) std::cerr << "hint: " << status.error().hint << '\n';
  return 1;
}
