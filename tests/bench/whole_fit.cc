// quantize --calibrate and refit, on one layer in the shape of Qwen3-30B-A3B with fewer experts:
// processor time, which neither other processes nor the number of cores changes much.
#include <iostream>

#include "libshard/base/text/text.h"
#include "tests/bench/whole_run.h"

namespace bench {
namespace {

using moepack::Cat;

constexpr uint32_t kSessionTokens = 512;
// Of `tune`, which has 200 by default: enough to see what each takes.
constexpr const char* kUpdates = "30";

// What is measured on one checkpoint, in `scratch`.
struct FitCommands {
  Command pass, calibrate, fit, tune;
};

FitCommands CommandsOf(const std::string& moepack, const fs::path& scratch) {
  const auto in = [&](const char* name) { return (scratch / name).string(); };
  const auto refit = [&](const Command& steps) {
    Command command = {moepack,   "refit",     in("source"), "--plan",          in("plan.json"),
                       "--only",  "group:0",   "--text",     in("texts.jsonl"), "--jobs",
                       "1",       "--threads", "1",          "--least-tokens",  "100",
                       "--store", in("store")};
    command.insert(command.end(), steps.begin(), steps.end());
    return command;
  };
  return {{moepack, "profile", in("source"), "--text", in("texts.jsonl"), "--no-verify",
           "--threads", "1", "-o", in("statistics.json"), "--imatrix", in("imatrix.gguf")},
          {moepack, "quantize", in("source"), "--recipe", "Q4_K_M", "--pre", "qwen2", "--calibrate",
           in("texts.jsonl"), "--jobs", "1", "-o", in("model.gguf")},
          refit({"--steps", "ridge,refill,router,ridge"}),
          refit({"--steps", "ridge,refill,tune,ridge", "--updates", kUpdates})};
}

}  // namespace

// `beside`: what is measured on the same tokens.
void Run::AddProcessorTime(const std::string& work, const Series& ours, const Series* beside) {
  Row row = {.work = work};
  row.measured = Cat(Fixed(MedianCpuSeconds(ours.samples), 1), " s of CPU time");
  if (beside != nullptr) {
    row.beside =
        Cat(beside->name, " ", Fixed(MedianCpuSeconds(beside->samples), 1), " s of CPU time");
    row.figure = Cat(Fixed(MedianCpuSeconds(ours.samples) / MedianCpuSeconds(beside->samples), 1),
                     " times as long");
  }
  report_.rows.push_back(std::move(row));
  report_.rows.push_back(
      {.work = work + ": peak memory", .figure = moepack::FormatBytes(HighestPeak(ours.samples))});
}

Status Run::Fit(uint32_t experts, uint32_t sessions, int repetitions) {
  const std::string source = In("source").string();
  SHARD_CHECK(MakeCheckpoint(
      source, {"--layers", "1", "--experts", std::to_string(experts), "--hidden", "2048", "--ff",
               "768", "--top-k", "2", "--head-size", "128", "--vocabulary", "4096"}));
  SHARD_CHECK(WriteTexts(In("texts.jsonl"), sessions, kSessionTokens));
  SHARD_CHECK(RunCommand(
      {options_.moepack, "plan", source, "--groups", "2", "-o", In("plan.json").string()}));
  const FitCommands commands = CommandsOf(options_.moepack, options_.scratch);
  const std::string size =
      Cat(", 1 layer of ", experts, " experts, ", moepack::FormatCount(sessions * kSessionTokens),
          " tokens, one core");
  Series passes{"profile --imatrix", {}}, calibrations{"quantize --calibrate" + size, {}},
      fits{"refit" + size, {}}, tunings{"refit with tune" + size, {}};
  for (int i = 0; i < repetitions; ++i) {
    std::cerr << "calibrate and refit: " << i + 1 << " of " << repetitions << '\n';
    for (const auto& [command, series] :
         {std::pair{&commands.pass, &passes}, std::pair{&commands.calibrate, &calibrations},
          std::pair{&commands.fit, &fits}, std::pair{&commands.tune, &tunings}}) {
      for (const char* left :
           {"statistics.json", "imatrix.gguf", "model.gguf", "model.gguf.calibrated", "store"})
        fs::remove_all(In(left));
      SHARD_TRY(const Sample sample, RunCommand(*command));
      series->samples.push_back(sample);
    }
  }
  const std::string node = Cat("refit of ", experts / 2, " experts, ");
  AddProcessorTime("quantize --calibrate --recipe Q4_K_M" + size, calibrations, &passes);
  AddProcessorTime(Cat(node, "ridge, refill, router, ridge", size), fits, nullptr);
  AddProcessorTime(Cat(node, "ridge, refill, tune with ", kUpdates, " updates, ridge", size),
                   tunings, nullptr);
  for (Series* series : {&passes, &calibrations, &fits, &tunings})
    report_.series.push_back(std::move(*series));
  fs::remove_all(source);
  return moepack::Ok();
}

}  // namespace bench
