// profile, eval and decoding on the CPU, in tokens per second of processor time, beside stock
// llama.cpp on the same GGUF (tests/peer/stock_speed.cc).
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "tests/bench/whole_run.h"

namespace bench {
namespace {

using moepack::Cat;

constexpr double kOfPrompt = 1.0, kOfDecoding = 0.7, kOfQuiet = 0.8;
constexpr uint32_t kWindow = 512, kDecoded = 128, kGroups = 2;

const fs::path kLibraries = fs::path(MOEPACK_SOURCE_DIR) /
                            "build/peer/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64";

// prompt: the logits of every token are requested, so that every layer runs for every token, as in
// profile and eval; without_logits: only those of the last token, as in llama-bench
// (stock_speed.cc).
struct PeerRates {
  double prompt = 0, without_logits = 0, decode = 0;
};

Result<PeerRates> RunPeer(const fs::path& model, const fs::path& scratch) {
  const fs::path result = scratch / "peer.json";
  SHARD_CHECK(RunCommand({STOCK_SPEED, kLibraries.string(), model.string(), "2",
                          std::to_string(kWindow), std::to_string(kDecoded), result.string()}));
  std::ifstream file(result);
  const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded())
    return moepack::Error{moepack::Code::kCorrupt,
                          Cat(result.string(), ": expected JSON, found something else")};
  return PeerRates{json.value("prompt", 0.0), json.value("prompt_without_logits", 0.0),
                   json.value("decode", 0.0)};
}

// Another process that keeps one core busy during the measurement.
class BusyCore {
 public:
  BusyCore() : child_(fork()) {
    if (child_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (std::atomic<uint64_t> turns = 0;;) ++turns;
  }
  BusyCore(const BusyCore&) = delete;
  BusyCore& operator=(const BusyCore&) = delete;
  ~BusyCore() {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }

 private:
  pid_t child_;
};

// Of one type: in the order of the turns.
struct Rates {
  std::vector<double> profile, shared, eval, decode;
  std::vector<double> peer_prompt, peer_without_logits, peer_decode;
};

Command Eval(const fs::path& moepack, const fs::path& distribution, const fs::path& text) {
  return {moepack.string(), "eval",        distribution.string(), "--no-verify",
          "--text",         text.string(), "--generate",          "0"};
}

}  // namespace

Status WriteTexts(const fs::path& file, uint32_t sessions, uint32_t tokens) {
  std::ofstream out(file);
  for (uint32_t session = 0; session < sessions; ++session) {
    out << "{\"session\": \"s" << session << "\", \"tokens\": [";
    for (uint32_t i = 0; i < tokens; ++i)
      out << (i == 0 ? "" : ", ") << (i * 7919 + session * 331 + 13) % 4096;
    out << "]}\n";
  }
  if (!out.flush())
    return moepack::Error{moepack::Code::kIo, Cat(file.string(), ": expected to be written")};
  return moepack::Ok();
}

// Tokens per second of processor time, from the difference between a run of few tokens and one of
// more, so that loading the model does not count.
Result<double> Run::RateBetween(const Command& few, const Command& more, double tokens) {
  SHARD_TRY(const Sample start, RunCommand(few));
  SHARD_TRY(const Sample end, RunCommand(more));
  return tokens / std::max(1e-9, end.cpu_seconds - start.cpu_seconds);
}

void Run::AddThroughput(const std::string& what, const std::vector<double>& ours,
                        const Beside& beside) {
  Row row = {.work = what, .measured = Cat(Fixed(Median(ours), 0), " tokens/s")};
  if (!beside.rates.empty()) {
    const double ratio = Median(ours) / Median(beside.rates);
    row.beside = Cat(Fixed(Median(beside.rates), 0), " tokens/s");
    row.figure = Cat(Fixed(ratio, 2), " of ", beside.what);
    if (beside.target > 0) {
      row.target = "at least " + Fixed(beside.target, 1);
      row.verdict = Judge(ratio >= beside.target);
    }
  }
  report_.rows.push_back(std::move(row));
}

Status Run::ThroughputOf(const std::string& recipe, uint32_t sessions, int repetitions) {
  const bool peer = fs::exists(kLibraries);
  const fs::path model = In("model.gguf"), out = In("out"), statistics = In("stats.json");
  const fs::path few = In("few.jsonl"), texts = In("texts.jsonl");
  SHARD_CHECK(WriteTexts(few, 1, 16));
  SHARD_CHECK(WriteTexts(texts, sessions, kWindow));
  SHARD_CHECK(RunCommand({options_.moepack, "quantize", In("source").string(), "--recipe", recipe,
                          "--pre", "qwen2", "-o", model.string()}));
  SHARD_CHECK(RunCommand({options_.moepack, "build", model.string(), "--groups",
                          std::to_string(kGroups), "--no-verify", "-o", out.string()}));
  const auto profile = [&](const fs::path& text, Command more) {
    Command command = {options_.moepack, "profile", model.string(),      "--no-verify", "--text",
                       text.string(),    "-o",      statistics.string(), "--force"};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  };
  const auto eval = [&](const fs::path& text) { return Eval(options_.moepack, out, text); };
  Rates rates;
  const auto tokens = static_cast<double>(sessions * kWindow - 16);
  for (int i = 0; i < repetitions; ++i) {
    std::cerr << "profile, eval and decoding, " << recipe << ": " << i + 1 << " of " << repetitions
              << '\n';
    SHARD_TRY(const double profiled, RateBetween(profile(few, {}), profile(texts, {}), tokens));
    rates.profile.push_back(profiled);
    {
      const BusyCore busy;
      SHARD_TRY(const double shared, RateBetween(profile(few, {}), profile(texts, {}), tokens));
      rates.shared.push_back(shared);
    }
    if (peer) {
      SHARD_TRY(const PeerRates beside, RunPeer(model, options_.scratch));
      rates.peer_prompt.push_back(beside.prompt);
      rates.peer_without_logits.push_back(beside.without_logits);
      rates.peer_decode.push_back(beside.decode);
    }
    SHARD_TRY(const double evaluated, RateBetween(eval(few), eval(texts), tokens * (kGroups + 1)));
    rates.eval.push_back(evaluated);
    const Command alone = {"--threads", "1"};
    const Command decoding = {"--threads", "1", "--generate", std::to_string(kDecoded)};
    SHARD_TRY(const double decoded,
              RateBetween(profile(few, alone), profile(few, decoding), kDecoded));
    rates.decode.push_back(decoded);
  }
  const std::string type = Cat(", ", recipe, ", tokens per second of CPU time");
  const std::string llama = "llama.cpp";
  const auto add_prompts = [&](const std::string& work, const std::vector<double>& own) {
    AddThroughput(work + type, own, {llama, rates.peer_prompt, kOfPrompt});
    AddThroughput(Cat(work, type, "; beside a prompt of which only the last logits are asked"), own,
                  {llama, rates.peer_without_logits, 0});
  };
  add_prompts("profile", rates.profile);
  AddThroughput(Cat("profile", type, ", while another process uses a core"), rates.shared,
                {"the rate without it", rates.profile, kOfQuiet});
  add_prompts(Cat("eval of ", kGroups, " groups and the whole"), rates.eval);
  AddThroughput("one token at a time" + type, rates.decode,
                {llama, rates.peer_decode, kOfDecoding});
  for (const fs::path& path : {model, out, statistics, few, texts}) fs::remove_all(path);
  return moepack::Ok();
}

Status Run::Throughput(uint32_t experts, uint32_t sessions, int repetitions) {
  if (!fs::exists(kLibraries))
    std::cerr << "note: no llama.cpp to measure beside: tests/peer/install.sh says why\n";
  SHARD_CHECK(MakeCheckpoint(
      In("source"), {"--layers", "2", "--experts", std::to_string(experts), "--hidden", "2048",
                     "--ff", "768", "--top-k", "8", "--head-size", "128", "--vocabulary", "4096"}));
  for (const char* recipe : {"Q4_K_M", "Q8_0", "BF16"})
    SHARD_CHECK(ThroughputOf(recipe, sessions, repetitions));
  fs::remove_all(In("source"));
  return moepack::Ok();
}

}  // namespace bench
