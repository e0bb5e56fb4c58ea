// How long it takes to plan for a large model from the statistics of many sessions, how much memory
// that needs, and how well held-out sessions then do. The scores are generated with planted kinds
// of sessions, so that the best possible result is known.
// usage: bench-plan [LAYERS EXPERTS SESSIONS GROUPS ELIGIBLE [PARTITION...]]
#include "libshard/plan/plan.h"

#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "libshard/base/text/text.h"
#include "libshard/strategies/split_mix.h"
#include "tests/libshard/model/model_for_test.h"

namespace moepack {
namespace {

struct Size {
  uint32_t layers = 94, experts = 512, sessions = 1000, groups = 8, eligible = 128;
};

constexpr uint32_t kKinds = 8;

// Every layer has its own order of experts: an eighth are used by all sessions, and the others are
// divided among the kinds, so that a kind uses some of every layer and not the same ids.
std::vector<uint32_t> OrderOf(const Size& size, SplitMix64& random) {
  std::vector<uint32_t> order(size.experts);
  for (uint32_t id = 0; id < size.experts; ++id) order[id] = id;
  for (size_t i = order.size(); i-- > 1;) std::swap(order[i], order[random.Below(i + 1)]);
  return order;
}

ExpertScores Generate(const Size& size) {
  SplitMix64 random(1);
  ExpertScores scores;
  scores.format = "generated";
  scores.basis = ScoreBasis::kWeightedNorm;
  std::vector<std::vector<uint32_t>> orders;
  for (uint32_t layer = 0; layer < size.layers; ++layer) {
    scores.layers.push_back({layer, size.experts, 8});
    orders.push_back(OrderOf(size, random));
  }
  const uint32_t shared = size.experts / 8, own = (size.experts - shared) / kKinds;
  for (uint32_t session = 0; session < size.sessions; ++session) {
    // Kinds differ in frequency: the first is three times as frequent as the last.
    const uint64_t drawn = random.Below(2 * kKinds * kKinds);
    uint32_t kind = 0;
    for (uint64_t end = 0; kind < kKinds; ++kind) {
      end += 3 * kKinds - 2 * kind;
      if (drawn < end) break;
    }
    if (kind == kKinds) kind = 0;
    SessionScores made{Cat("s", session), Cat("kind", kind), 10000, {}, {}};
    made.scores.resize(size_t{size.layers} * size.experts);
    for (uint32_t layer = 0; layer < size.layers; ++layer) {
      for (uint32_t i = 0; i < size.experts; ++i) {
        const bool is_shared = i < shared, is_own = !is_shared && (i - shared) / own == kind;
        const float noise = static_cast<float>(random.Below(1024)) / 1024;
        const float weight = is_shared ? 6 : is_own ? 10 : 1;
        made.scores[size_t{layer} * size.experts + orders[layer][i]] = weight * (0.5f + noise);
      }
    }
    scores.sessions.push_back(std::move(made));
  }
  return scores;
}

double ProcessorSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double PeakMegabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1000;
}

int Run(const Size& size, const std::vector<std::string>& partitions) {
  const auto scores = std::make_shared<const ExpertScores>(Generate(size));
  const MoeModel model = ModelForTest().Layers(size.layers, size.experts, 8).Build();
  std::printf("%u layers x %u experts x %u sessions, %u groups, %u eligible; scores %.0f MB\n",
              size.layers, size.experts, size.sessions, size.groups, size.eligible,
              PeakMegabytes());
  std::printf("%-14s %8s %9s %9s %8s %8s %10s %8s %8s\n", "partition", "seconds", "of cores",
              "peak MB", "found", "P5", "contiguous", "same", "oracle");
  for (const std::string& partition : partitions) {
    PlanOptions options;
    options.groups = size.groups;
    options.partition = partition;
    options.scores = scores;
    options.eligible = size.eligible;
    const double processor = ProcessorSeconds();
    const auto start = std::chrono::steady_clock::now();
    const auto plan = MakePlan(model, options);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (!plan) {
      std::printf("%s: %s\n", partition.c_str(), plan.error().message.c_str());
      return 1;
    }
    const PlanExpectation& expected = *plan->expectation;
    std::printf("%-14s %8.2f %9.2f %9.0f %8.4f %8.4f %10.4f %8.4f %8.4f\n", partition.c_str(),
                seconds.count(), ProcessorSeconds() - processor, PeakMegabytes(),
                expected.overall.mean, expected.overall.p5, expected.contiguous.mean,
                expected.same.mean, expected.oracle.mean);
  }
  return 0;
}

}  // namespace
}  // namespace moepack

int main(int argc, char** argv) {
  moepack::Size size;
  const auto number = [&](int index, uint32_t& value) {
    if (argc > index) value = static_cast<uint32_t>(std::strtoul(argv[index], nullptr, 10));
  };
  number(1, size.layers);
  number(2, size.experts);
  number(3, size.sessions);
  number(4, size.groups);
  number(5, size.eligible);
  std::vector<std::string> partitions = {"session", "ranked", "same"};
  if (argc > 6) partitions.assign(argv + 6, argv + argc);
  return moepack::Run(size, partitions);
}
