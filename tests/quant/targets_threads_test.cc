// The digest of what every encoder makes of fixed rows: the same for every instruction set, number
// of threads and compiler.
#include <atomic>
#include <thread>

#include "tests/quant/digest.h"
#include "tests/quant/same_bytes.h"

namespace quant {
namespace {

class TargetsThreads : public EachInstructionSet {};

struct Job {
  const Format* format;
  const Rows* rows;
};

// Threads take whichever job is next, as they do when a model is packed.
uint64_t DigestOf(const std::vector<Job>& jobs, size_t threads) {
  std::vector<std::vector<std::byte>> outputs(jobs.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < jobs.size(); i = next++) {
      const auto& [format, rows] = jobs[i];
      outputs[i].resize(*format->BytesFor(rows->values.size()));
      format->encode(rows->values, rows->importance, outputs[i]);
    }
  };
  std::vector<std::thread> running;
  for (size_t i = 0; i < threads; ++i) running.emplace_back(work);
  for (std::thread& thread : running) thread.join();
  uint64_t digest = kEmptyDigest;
  for (const std::vector<std::byte>& output : outputs) Digest(output, digest);
  return digest;
}

// Rows of models first, then those that break searches; with and without importance.
std::vector<Rows> FixedRows() {
  std::vector<TestRow> hard = FlatRows();
  for (auto& more : {PatternRows(), RowsOfAnyBits(5, 5), NonFiniteRows()}) {
    hard.insert(hard.end(), more.begin(), more.end());
  }
  std::vector<Rows> sets = {Joined(RandomRows(11, 32)), Joined(hard)};
  const std::vector<TestRow> importances = Importances(12);
  sets.push_back(With(importances[2], sets[0]));
  sets.push_back(With(importances[3], sets[1]));
  return sets;
}

// The value was made by encode_reference, with g++ 12 on x86-64.
constexpr uint64_t kDigest = 14856253566535638637u;

TEST_P(TargetsThreads, GiveTheSameDigest) {
  const std::vector<Rows> sets = FixedRows();
  std::vector<Job> jobs;
  for (const Format* format : Encoders()) {
    for (const Rows& rows : sets) jobs.push_back({format, &rows});
  }
  for (const size_t threads : {1, 2, 8}) {
    // The first call after this looks the instruction set up: in all threads at once.
    hwy::SetSupportedTargetsForTest(GetParam().target);
    EXPECT_EQ(DigestOf(jobs, threads), kDigest)
        << threads << " threads, " << CurrentInstructionSet();
  }
}

FOR_EACH_INSTRUCTION_SET(TargetsThreads);

TEST(Targets, TheReferenceGivesTheDigestToo) {
  uint64_t digest = kEmptyDigest;
  const std::vector<Rows> sets = FixedRows();
  for (const Format* format : Encoders()) {
    for (const Rows& rows : sets) {
      auto bytes = EncodeOver(std::byte{0}, format->encode_reference, *format, rows);
      bytes.resize(bytes.size() - kGuard);
      Digest(bytes, digest);
    }
  }
  EXPECT_EQ(digest, kDigest);
}

}  // namespace
}  // namespace quant
