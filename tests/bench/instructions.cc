// Instructions per weight of every encoder and of ggml's: counted by the processor
// (perf_event_open) where the kernel allows it, otherwise by valgrind --tool=callgrind, which
// supports nothing wider than AVX2. The result, or the reason why there is none, goes to a JSON
// file.
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"
#include "tests/bench/measure.h"
#include "tests/bench/quant_cases.h"

// Callgrind finds this function by name and counts only what happens inside it.
extern "C" __attribute__((noinline)) void CountedWork(const std::function<void()>& work) { work(); }

namespace bench {
namespace {

using moepack::Cat;
using moepack::Code;
using moepack::Error;
using moepack::Json;
using quant::InstructionSet;

constexpr size_t kRows = 8, kRowValues = 2048;  // whole vectors of blocks on every instruction set

struct Case {
  EncoderCase encoder;
  std::optional<InstructionSet> set;  // none: ggml's

  std::string SetName() const { return set ? set->name : "ggml"; }
};

std::vector<Case> Cases(const quant::PeerGgml& peer) {
  std::vector<Case> cases;
  for (const EncoderCase& encoder : EncoderCases()) {
    for (const InstructionSet& set : MeasuredSets()) cases.push_back({encoder, set});
    if (peer.usable()) cases.push_back({encoder, std::nullopt});
  }
  return cases;
}

// Calls count(work) for every case in order; the work has run once before.
template <class Count>
void ForEachCase(const quant::PeerGgml& peer, const Count& count) {
  const ModelRows rows = MakeModelRows(kRows, kRowValues);
  for (const Case& item : Cases(peer)) {
    std::vector<std::byte> out = item.encoder.Room(rows);
    const auto work = [&] {
      item.set ? item.encoder.Ours(rows, out) : item.encoder.Peers(peer, rows, out);
    };
    if (item.set) hwy::SetSupportedTargetsForTest(item.set->target);
    work();
    count(work);
    hwy::SetSupportedTargetsForTest(0);
  }
}

Json Counted(const Case& item, double instructions) {
  return {{"type", item.encoder.format->name},
          {"importance", item.encoder.weighted},
          {"set", item.SetName()},
          {"instructions_per_weight", instructions / (kRows * kRowValues)}};
}

// A counter of this process's instructions outside the kernel, or -1.
int OpenCounter() {
  perf_event_attr about = {};
  about.size = sizeof about;
  about.type = PERF_TYPE_HARDWARE;
  about.config = PERF_COUNT_HW_INSTRUCTIONS;
  about.disabled = 1;
  about.exclude_kernel = 1;
  about.exclude_hv = 1;
  return static_cast<int>(syscall(SYS_perf_event_open, &about, 0, -1, -1, 0));
}

Json CountByProcessor(int counter) {
  const quant::PeerGgml peer;
  std::vector<uint64_t> counts;
  ForEachCase(peer, [&](const auto& work) {
    uint64_t count = 0;
    ioctl(counter, PERF_EVENT_IOC_RESET, 0);
    ioctl(counter, PERF_EVENT_IOC_ENABLE, 0);
    CountedWork(work);
    ioctl(counter, PERF_EVENT_IOC_DISABLE, 0);
    if (read(counter, &count, sizeof count) != sizeof count) count = 0;
    counts.push_back(count);
  });
  const std::vector<Case> cases = Cases(peer);
  Json results = Json::array();
  for (size_t i = 0; i < cases.size(); ++i) {
    results.push_back(Counted(cases[i], static_cast<double>(counts[i])));
  }
  return {{"tool", "the processor's counter"}, {"cases", results}};
}

// Inside callgrind: does the work and lists the cases in order.
void RunCases(const std::string& list) {
  const quant::PeerGgml peer;
  Json results = Json::array();
  ForEachCase(peer, [](const auto& work) { CountedWork(work); });
  for (const Case& item : Cases(peer)) results.push_back(Counted(item, 0));
  std::ofstream(list) << results.dump();
}

// "totals: N" of one of callgrind's files.
std::optional<double> Total(const fs::path& path) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("totals: ")) return std::strtod(line.c_str() + 8, nullptr);
  }
  return std::nullopt;
}

moepack::Result<Json> CountByCallgrind(const std::string& program, const fs::path& scratch) {
  const fs::path list = scratch / "cases.json", calls = scratch / "calls";
  // Every return from the function writes its own file.
  SHARD_CHECK(RunCommand({"valgrind", "--quiet", "--tool=callgrind", "--toggle-collect=CountedWork",
                          "--dump-after=CountedWork", "--callgrind-out-file=" + calls.string(),
                          program, "--run-cases", list.string()}));
  Json results = Json::parse(std::ifstream(list));
  for (size_t i = 0; i < results.size(); ++i) {
    const auto total = Total(calls.string() + "." + std::to_string(i + 1));
    if (!total) return Error{Code::kIo, Cat(calls.string(), ": no total of case ", i)};
    results[i]["instructions_per_weight"] = *total / (kRows * kRowValues);
  }
  return Json{{"tool", "valgrind --tool=callgrind"}, {"cases", results}};
}

Json Count(const std::string& program, const fs::path& scratch) {
  const int counter = OpenCounter();
  if (counter >= 0) return CountByProcessor(counter);
  const std::string refused = std::strerror(errno);
  fs::create_directories(scratch);
  auto counted = CountByCallgrind(program, scratch);
  fs::remove_all(scratch);
  if (counted) return *counted;
  return {{"reason", Cat("perf_event_open: ", refused, "; ", counted.error().message)}};
}

}  // namespace
}  // namespace bench

// usage: bench-instructions JSON_FILE SCRATCH_DIR
int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--run-cases") == 0) {
    bench::RunCases(argv[2]);
    return 0;
  }
  if (argc != 3) {
    std::fputs("usage: bench-instructions JSON_FILE SCRATCH_DIR\n", stderr);
    return 2;
  }
  const bench::Json counted = bench::Count(argv[0], bench::fs::path(argv[2]) / "callgrind");
  std::ofstream(argv[1]) << counted.dump(1) << '\n';
  std::printf("instructions per weight: %s\n", counted.contains("tool")
                                                   ? counted["tool"].get<std::string>().c_str()
                                                   : counted["reason"].get<std::string>().c_str());
  return 0;
}
