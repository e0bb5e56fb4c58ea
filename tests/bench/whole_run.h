// The measurements of whole processes, in the order in which they are made; each adds its rows to
// the report.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/bench/report.h"

namespace bench {

struct Options {
  std::string moepack, make_fixtures;                     // programs
  fs::path scratch;                                       // made, and emptied afterwards
  std::string micro_json, quant_json, instructions_json;  // what the other programs found
  std::string markdown, json;
  bool quick = false;
  std::vector<std::string> only;  // parts to measure and print, without a report; none: all
};

std::string Fixed(double value, int digits);
// Median seconds and bytes per second.
std::string Speed(const std::vector<Sample>& samples, uint64_t bytes);
inline Verdict Judge(bool met) { return met ? Verdict::kMet : Verdict::kMissed; }

// So many sessions of `tokens` token ids below 4,096, as --text takes them.
Status WriteTexts(const fs::path& file, uint32_t sessions, uint32_t tokens);

class Run {
 public:
  explicit Run(const Options& options);

  // Copying, sharding and verifying a checkpoint of `bytes`.
  Status Shard(uint64_t bytes, int repetitions);
  Status List(uint64_t tensors, int repetitions);
  // Quantizing one layer of the shape of Qwen3-30B-A3B with `experts` experts: on one core, on two,
  // and beside reading, encoding and writing alone.
  Status Quantize(uint32_t experts, int repetitions);
  // Loading a node of such a layer, cold, until it has put out a token.
  Status Load(uint32_t experts, int repetitions);
  // profile and eval of so many sessions of 512 tokens, and decoding, on two such layers in Q4_K_M,
  // Q8_0 and BF16, beside llama.cpp if npm has installed it.
  Status Throughput(uint32_t experts, uint32_t sessions, int repetitions);
  // A calibration and a refit of one such layer, on one core, with so many sessions of 512 tokens.
  Status Fit(uint32_t experts, uint32_t sessions, int repetitions);
  // Over loopback: how much is fetched to list a sparse checkpoint of about `bytes`, how much for
  // one group of eight, and how long quantizing one takes compared with reading it locally.
  Status RemoteList(uint64_t bytes);
  Status RemoteGroup();
  Status RemoteQuantize(uint64_t bytes, int repetitions);
  // Publishing 8 groups of about `bytes` to docker-registry and pulling them, beside skopeo.
  Status Registry(uint64_t bytes, int repetitions);
  const Report& report() const { return report_; }

 private:
  using Step = std::function<Result<Sample>()>;

  fs::path In(const char* name) const { return options_.scratch / name; }
  Status MakeCheckpoint(const fs::path& where, const Command& size);
  // One run of `step` with no leftover output, no pending writes, and the source in the page cache.
  Result<Sample> WriteFresh(const fs::path& output, const Step& step);
  Status MeasureWriting(const std::string& size, int repetitions);
  Status MeasureReading(const std::string& size, int repetitions, bool warm);
  Result<Sample> QuantizeGroup(const std::string& source);
  Status MakeLayout(uint64_t bytes);
  // `what` is "moepack" or "skopeo".
  Result<Sample> SendOnce(const std::string& what, const std::string& tag);
  Result<Sample> FetchOnce(const std::string& what, const std::string& reference);
  void AddBeside(const std::string& work, const Series& ours, const Series& peer, uint64_t bytes);
  void AddRatio(Row row, const Series& ours, const Series& peer, uint64_t bytes);

  void AddProcessorTime(const std::string& work, const Series& ours, const Series* beside);
  Status ThroughputOf(const std::string& recipe, uint32_t sessions, int repetitions);
  Result<double> RateBetween(const Command& few, const Command& more, double tokens);
  // Baselines of tokens per second; target 0: for information.
  struct Beside {
    std::string what;
    std::vector<double> rates;
    double target;
  };
  void AddThroughput(const std::string& what, const std::vector<double>& ours,
                     const Beside& beside);

  // The runs of Quantize, a sample of each for every repetition.
  struct QuantizeRuns {
    Series one, two, reading, encoding, writing;
  };
  Status TakeQuantizeTurn(QuantizeRuns& runs);
  void AddQuantizeRows(const std::string& name, const QuantizeRuns& runs, uint64_t source_bytes);

  const Options& options_;
  Report report_;
};

}  // namespace bench
