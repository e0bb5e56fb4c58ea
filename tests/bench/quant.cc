// Our encoders and decoders beside ggml's, in one process, on the same rows, in turns. Times are
// processor times of one thread, so that other programs do not count.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>

#include "tests/bench/quant_cases.h"

namespace bench {
namespace {

using quant::Decoders;
using quant::Format;
using quant::InstructionSet;
using quant::PeerGgml;

constexpr double kLeastSeconds = 0.004;  // of one timing

double ThreadSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Something to time, repeated often enough for the resolution of the clock.
class Timed {
 public:
  explicit Timed(std::function<void()> work) : work_(std::move(work)) {
    work_();  // touches all memory
    repeats_ = 1 + static_cast<int>(kLeastSeconds / std::max(Seconds(), 1e-7));
  }

  // The time of doing the work once.
  double Seconds() const {
    const double start = ThreadSeconds();
    for (int i = 0; i < repeats_; ++i) work_();
    return (ThreadSeconds() - start) / repeats_;
  }

 private:
  std::function<void()> work_;
  int repeats_ = 1;
};

double Median(std::vector<double> numbers) {
  const auto middle = numbers.begin() + static_cast<ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

// Ours and, if there is one, the peer's; they take turns, and the ratio is the median over all
// turns.
void TakeTurns(benchmark::State& state, size_t values, const std::function<void()>& ours,
               const std::function<void()>& peers) {
  const Timed our_work(ours), peer_work(peers ? peers : ours);
  std::vector<double> our_seconds, peer_seconds, ratios;
  for (auto _ : state) {
    if (peers) peer_seconds.push_back(peer_work.Seconds());
    our_seconds.push_back(our_work.Seconds());
    if (peers) ratios.push_back(peer_seconds.back() / our_seconds.back());
    state.SetIterationTime(our_seconds.back());
  }
  const auto count = static_cast<double>(values);
  state.counters["values_per_second"] = count / Median(our_seconds);
  if (!peers) return;
  state.counters["peer_values_per_second"] = count / Median(peer_seconds);
  state.counters["ratio"] = Median(ratios);
}

struct Bench {
  ModelRows rows = MakeModelRows(128, 2048);
  PeerGgml peer;
  bool different = false;

  template <class T>
  bool SameBytes(benchmark::State& state, const char* whose, const std::vector<T>& ours,
                 const std::vector<T>& others) {
    if (std::memcmp(ours.data(), others.data(), ours.size() * sizeof(T)) == 0) return true;
    different = true;
    state.SkipWithError(whose);
    return false;
  }

  void Encode(benchmark::State& state, const EncoderCase& item, const InstructionSet& set) {
    const quant::OnInstructionSet forced(set.target);
    std::vector<std::byte> out = item.Room(rows), other = item.Room(rows);
    item.Ours(rows, out);
    item.format->encode_reference(rows.values, item.Importance(rows), other);
    if (!SameBytes(state, "not the bytes of the reference", out, other)) return;
    std::function<void()> peers;
    if (peer.usable()) {
      peers = [&] { item.Peers(peer, rows, other); };
      peers();
      if (!SameBytes(state, "not the bytes of ggml", out, other)) return;
      state.counters["equal"] = 1;
    }
    TakeTurns(
        state, rows.values.size(), [&] { item.Ours(rows, out); }, peers);
  }

  // Blocks to decode: encoded rows, or arbitrary bytes of a type that we do not encode.
  std::vector<std::byte> Blocks(const Format& format) const {
    std::vector<std::byte> blocks(*format.BytesFor(rows.values.size()));
    if (format.encode != nullptr) {
      format.encode(rows.values, {}, blocks);
    } else {
      fuzz::Random random(6);
      for (std::byte& byte : blocks) byte = static_cast<std::byte>(random.Below(0x78));
    }
    return blocks;
  }

  void Decode(benchmark::State& state, const Format& format, const InstructionSet& set) {
    const std::vector<std::byte> blocks = Blocks(format);
    const quant::OnInstructionSet forced(set.target);
    std::vector<float> out(rows.values.size()), other(rows.values.size());
    format.decode(blocks, out);
    format.decode_reference(blocks, other);
    if (!SameBytes(state, "not the values of the reference", out, other)) return;
    std::function<void()> peers;
    const auto dequantize = peer.usable() ? peer.Dequantizer(format) : nullptr;
    if (dequantize != nullptr) {
      peers = [&, dequantize] {
        dequantize(blocks.data(), other.data(), static_cast<int64_t>(other.size()));
      };
      peers();
      if (!SameBytes(state, "not the values of ggml", out, other)) return;
      state.counters["equal"] = 1;
    }
    TakeTurns(
        state, out.size(), [&] { format.decode(blocks, out); }, peers);
  }
};

template <class Run>
void Register(const std::string& name, int turns, Run run) {
  benchmark::RegisterBenchmark(name.c_str(), run)
      ->Iterations(turns)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

// Names are encode/TYPE/plain/INSTRUCTION SET, encode/TYPE/importance/... and decode/TYPE/plain/...
void RegisterAll(Bench& bench, int turns) {
  for (const InstructionSet& set : MeasuredSets()) {
    for (const EncoderCase& item : EncoderCases()) {
      Register("encode/" + item.Name() + "/" + set.name, turns,
               [&bench, item, set](benchmark::State& state) { bench.Encode(state, item, set); });
    }
    for (const Format* format : Decoders()) {
      Register(
          "decode/" + std::string(format->name) + "/plain/" + set.name, turns,
          [&bench, format, set](benchmark::State& state) { bench.Decode(state, *format, set); });
    }
  }
}

}  // namespace
}  // namespace bench

// usage: bench-quant [--quick] [options of Google Benchmark]
int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const bool quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
  bench::Bench bench;
  if (!bench.peer.broken().empty()) {
    std::fprintf(stderr, "error: %s\n", bench.peer.broken().c_str());
    return 1;
  }
  const std::string& missing = bench.peer.missing();
  if (!missing.empty()) {
    std::fprintf(stderr, "NOT COMPARED WITH GGML: %s\n", missing.c_str());
  }
  benchmark::AddCustomContext("peer", missing.empty() ? "ggml" : "none: " + missing);
  bench::RegisterAll(bench, quick ? 3 : 15);
  benchmark::RunSpecifiedBenchmarks();
  if (bench.different) std::fprintf(stderr, "error: bytes differ, see above\n");
  return bench.different ? 1 : 0;
}
