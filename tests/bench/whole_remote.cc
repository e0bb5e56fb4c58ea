// Reading from a local web server that counts: how much is fetched, and how much longer it takes
// than reading the same files locally.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"
#include "tests/bench/whole_run.h"
#include "tests/remote/support/fault_server.h"

namespace bench {
namespace {

using moepack::Cat;
using moepack::FormatBytes;
using moepack::remote::FaultServer;

constexpr uint64_t kMostListed = 1'000'000;  // bytes
constexpr double kMostListedPart = 0.01;
constexpr double kMostOfRanges = 1.01;
constexpr double kOfLocal = 0.85, kOfLocalDelayed = 0.7;
constexpr uint64_t kMostRemoteMemory = 100e6;
constexpr std::chrono::milliseconds kDelay{50};

// A checkpoint behind an address.
class Served {
 public:
  explicit Served(const fs::path& directory) {
    server_.SetListing(true);
    server_.ServeDirectory("/model/", directory.string());
  }
  std::string address() const { return server_.origin() + "/model/"; }
  FaultServer& server() { return server_; }

 private:
  FaultServer server_;
};

struct Wanted {
  uint64_t tensors = 0, bytes = 0;
};

// The tensors of the groups that a distribution has.
Result<Wanted> TensorsOfGroups(const fs::path& distribution) {
  SHARD_TRY(const moepack::Json document,
            moepack::ReadJsonFile((distribution / "distribution.json").string()));
  Wanted wanted;
  for (const moepack::Json& bundle : document.value("bundles", moepack::Json::array())) {
    if (bundle.value("role", "") != "group") continue;
    for (const moepack::Json& tensor : bundle.value("tensors", moepack::Json::array())) {
      ++wanted.tensors;
      wanted.bytes += tensor.value("bytes", uint64_t{0});
    }
  }
  return wanted;
}

std::string FetchedFrom(const FaultServer& server) {
  return Cat(FormatBytes(server.bytes()), " in ", server.requests().size(), " requests");
}

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

Status Run::RemoteList(uint64_t bytes) {
  const fs::path source = In("source");
  // A layer of Mixtral 8x7B has 2.8 GB.
  const uint64_t layers = bytes / 2'820'000'000;
  SHARD_CHECK(
      RunCommand({options_.make_fixtures, "mixtral", source.string(), "--sparse", "--layers",
                  std::to_string(layers), "--experts", "8", "--hidden", "4096", "--ff", "14336",
                  "--head-size", "1024", "--vocabulary", "32000", "--shards", "6"}));
  const uint64_t size = TreeBytes(source);
  Served served(source);
  Series series{Cat("list-tensors, ", FormatBytes(size), " over loopback"), {}};
  SHARD_TRY(const Sample sample, RunCommand({options_.moepack, "list-tensors", served.address()}));
  series.samples.push_back(sample);
  const uint64_t fetched = served.server().bytes();
  const double part = static_cast<double>(fetched) / static_cast<double>(size);
  report_.rows.push_back(
      {.work = Cat("list-tensors of ", FormatBytes(size), " in 6 shards over loopback: fetched"),
       .measured = FetchedFrom(served.server()),
       .figure = Cat(Fixed(100 * part, 4), " % of it"),
       .target = "under 1 MB and under 1 %",
       .verdict = Judge(fetched < kMostListed && part < kMostListedPart)});
  report_.series.push_back(std::move(series));
  fs::remove_all(source);
  return moepack::Ok();
}

Status Run::RemoteGroup() {
  const fs::path source = In("source"), out = In("out");
  SHARD_CHECK(MakeCheckpoint(source, {"--layers", "4", "--experts", "32", "--hidden", "1024",
                                      "--ff", "512", "--vocabulary", "8192"}));
  const std::string name =
      Cat("shard-experts --only group:3, of 8, ", FormatBytes(TreeBytes(source)), " over loopback");
  Served served(source);
  Series series{name, {}};
  SHARD_TRY(const Sample sample,
            RunCommand({options_.moepack, "shard-experts", served.address(), "--groups", "8",
                        "--only", "group:3", "-o", out.string()}));
  series.samples.push_back(sample);
  SHARD_TRY(const Wanted wanted, TensorsOfGroups(out));
  const double ratio =
      static_cast<double>(served.server().bytes()) / static_cast<double>(wanted.bytes);
  const double each =
      static_cast<double>(served.server().requests().size()) / static_cast<double>(wanted.tensors);
  report_.rows.push_back(
      {.work = name + ": fetched",
       .measured = FetchedFrom(served.server()),
       .beside = Cat(FormatBytes(wanted.bytes), " in ", wanted.tensors, " tensors"),
       .figure = Fixed(ratio, 4) + " of its ranges",
       .target = "at most 1.01",
       .verdict = Judge(ratio <= kMostOfRanges)});
  report_.rows.push_back({.work = name + ": requests", .figure = Fixed(each, 2) + " per tensor"});
  report_.rows.push_back({.work = name + ": peak memory",
                          .figure = FormatBytes(sample.peak_bytes),
                          .target = "under 100 MB",
                          .verdict = Judge(sample.peak_bytes < kMostRemoteMemory)});
  report_.series.push_back(std::move(series));
  fs::remove_all(source);
  fs::remove_all(out);
  return moepack::Ok();
}

// One group of two, so that it takes longer than opening does.
Result<Sample> Run::QuantizeGroup(const std::string& source) {
  const fs::path out = In("out");
  const Command command = {
      options_.moepack, "shard-experts", source,  "--groups", "2",  "--only",    "group:1",
      "--quantize",     "Q4_K_M",        "--pre", "qwen2",    "-o", out.string()};
  return WriteFresh(out, [&] { return RunCommand(command); });
}

Status Run::RemoteQuantize(uint64_t bytes, int repetitions) {
  const fs::path source = In("source");
  // Experts of Qwen3-235B-A22B.
  constexpr uint64_t kHidden = 4096, kWidth = 1536, kLayers = 2,
                     kExpertBytes = 3 * kHidden * kWidth * 2;
  const uint64_t experts = std::max<uint64_t>(bytes / (kLayers * kExpertBytes), 2);
  SHARD_CHECK(MakeCheckpoint(source, {"--layers", std::to_string(kLayers), "--experts",
                                      std::to_string(experts), "--hidden", std::to_string(kHidden),
                                      "--ff", std::to_string(kWidth), "--vocabulary", "8192"}));
  const std::string name = Cat("shard-experts --only group:1, of 2, --quantize Q4_K_M, ",
                               FormatBytes(TreeBytes(source)));
  Served served(source);
  Series local{name + ", local", {}}, near{name + ", over loopback", {}},
      delayed{name + ", over loopback, every answer 50 ms late", {}};
  std::vector<double> ratios, delayed_ratios;
  uint64_t fetched = 0;
  for (int i = 0; i < repetitions; ++i) {
    std::cerr << name << ": " << i + 1 << " of " << repetitions << '\n';
    SHARD_TRY(const Sample here, QuantizeGroup(source.string()));
    served.server().SetDelay(std::chrono::milliseconds(0));
    served.server().Forget();
    SHARD_TRY(const Sample loopback, QuantizeGroup(served.address()));
    fetched = served.server().bytes();
    served.server().SetDelay(kDelay);
    SHARD_TRY(const Sample late, QuantizeGroup(served.address()));
    local.samples.push_back(here);
    near.samples.push_back(loopback);
    delayed.samples.push_back(late);
    ratios.push_back(here.seconds / loopback.seconds);
    delayed_ratios.push_back(here.seconds / late.seconds);
  }
  const auto add = [&](const Series& series, double ratio, double least) {
    report_.rows.push_back({.work = series.name,
                            .measured = Speed(series.samples, fetched),
                            .beside = Cat("local ", Speed(local.samples, fetched)),
                            .figure = Fixed(ratio, 2) + " of local",
                            .target = Cat("at least ", Fixed(least, 2)),
                            .verdict = Judge(ratio >= least)});
  };
  add(near, MedianOf(ratios), kOfLocal);
  add(delayed, MedianOf(delayed_ratios), kOfLocalDelayed);
  const uint64_t peak = std::max(HighestPeak(near.samples), HighestPeak(delayed.samples));
  report_.rows.push_back({.work = near.name + ": peak memory",
                          .beside = Cat("local ", FormatBytes(HighestPeak(local.samples))),
                          .figure = FormatBytes(peak)});
  for (Series* series : {&local, &near, &delayed}) report_.series.push_back(std::move(*series));
  fs::remove_all(source);
  fs::remove_all(In("out"));
  return moepack::Ok();
}

}  // namespace bench
