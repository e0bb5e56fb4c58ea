// quantize --calibrate and refit, on one layer in the shape of Qwen3-30B-A3B with fewer experts:
// processor time, which neither other processes nor the number of cores changes much.
#include <iostream>

#include "libshard/base/text/text.h"
#include "tests/bench/whole_run.h"

namespace bench {
namespace {

using moepack::Cat;

constexpr uint32_t kSessionTokens = 512;
// Of `tune`, which has 300 by default: enough to see what each takes.
constexpr const char* kUpdates = "30";

double MedianProcessorTime(const Series& series) {
  std::vector<Sample> samples = series.samples;
  for (Sample& sample : samples) sample.seconds = sample.cpu_seconds;
  return MedianSeconds(samples);
}

}  // namespace

// `beside`: what is measured on the same tokens.
void Run::AddProcessorTime(const std::string& work, const Series& ours, const Series* beside) {
  Row row = {.work = work};
  row.measured = Cat(Fixed(MedianProcessorTime(ours), 1), " s of CPU time");
  if (beside != nullptr) {
    row.beside = Cat(beside->name, " ", Fixed(MedianProcessorTime(*beside), 1), " s of CPU time");
    row.figure =
        Cat(Fixed(MedianProcessorTime(ours) / MedianProcessorTime(*beside), 1), " times as long");
  }
  report_.rows.push_back(std::move(row));
  report_.rows.push_back(
      {.work = work + ": peak memory", .figure = moepack::FormatBytes(HighestPeak(ours.samples))});
}

Status Run::Fit(uint32_t experts, uint32_t sessions, int repetitions) {
  const std::string source = In("source").string(), texts = In("texts.jsonl").string();
  const std::string plan = In("plan.json").string(), store = In("store").string();
  SHARD_CHECK(MakeCheckpoint(
      source, {"--layers", "1", "--experts", std::to_string(experts), "--hidden", "2048", "--ff",
               "768", "--top-k", "2", "--head-size", "128", "--vocabulary", "4096"}));
  SHARD_CHECK(WriteTexts(texts, sessions, kSessionTokens));
  SHARD_CHECK(RunCommand({options_.moepack, "plan", source, "--groups", "2", "-o", plan}));
  const Command pass = {options_.moepack, "profile",         source, "--text", texts,
                        "--no-verify",    "--threads",       "1",    "-o",     In("s.json"),
                        "--imatrix",      In("imatrix.gguf")};
  const Command calibrate = {options_.moepack, "quantize",    source, "--recipe", "Q4_K_M", "--pre",
                             "qwen2",          "--calibrate", texts,  "--jobs",   "1",      "-o",
                             In("model.gguf")};
  const auto refit = [&](Command steps) {
    Command command = {options_.moepack,
                       "refit",
                       source,
                       "--plan",
                       plan,
                       "--only",
                       "group:0",
                       "--text",
                       texts,
                       "--jobs",
                       "1",
                       "--threads",
                       "1",
                       "--least-tokens",
                       "100",
                       "--store",
                       store};
    command.insert(command.end(), steps.begin(), steps.end());
    return command;
  };
  const Command tuning = refit({"--steps", "ridge,refill,tune,ridge", "--updates", kUpdates});
  const Command fitting = refit({"--steps", "ridge,refill,router,ridge"});
  const std::string size =
      Cat(", 1 layer, ", moepack::FormatCount(sessions * kSessionTokens), " tokens");
  Series passes{"profile --imatrix", {}}, calibrations{"quantize --calibrate" + size, {}},
      fits{"refit" + size, {}}, tunings{"refit with tune" + size, {}};
  for (int i = 0; i < repetitions; ++i) {
    std::cerr << "calibrate and refit: " << i + 1 << " of " << repetitions << '\n';
    for (const auto& [command, series] :
         {std::pair{&pass, &passes}, std::pair{&calibrate, &calibrations},
          std::pair{&fitting, &fits}, std::pair{&tuning, &tunings}}) {
      for (const char* left : {"s.json", "imatrix.gguf", "model.gguf", "model.gguf.calibrated"})
        fs::remove_all(In(left));
      fs::remove_all(store);
      SHARD_TRY(const Sample sample, RunCommand(*command));
      series->samples.push_back(sample);
    }
  }
  const std::string of = Cat(" of ", experts, " experts, ");
  AddProcessorTime(Cat("quantize --calibrate --recipe Q4_K_M", size, of, "one core"), calibrations,
                   &passes);
  AddProcessorTime(
      Cat("refit, ridge, refill, router, ridge", size, ", ", experts / 2, of, "one core"), fits,
      nullptr);
  AddProcessorTime(Cat("refit, ridge, refill, tune with ", kUpdates, " updates, ridge", size, ", ",
                       experts / 2, of, "one core"),
                   tunings, nullptr);
  for (Series* series : {&passes, &calibrations, &fits, &tunings})
    report_.series.push_back(std::move(*series));
  fs::remove_all(source);
  return moepack::Ok();
}

}  // namespace bench
