// The digests of the encoded fixed rows: the same for every instruction set, number of threads and
// compiler.
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
TypeDigests DigestsOf(const std::vector<Job>& jobs, size_t threads) {
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
  TypeDigests digests;
  for (size_t i = 0; i < jobs.size(); ++i) DigestOfType(jobs[i].format->name, outputs[i], digests);
  return digests;
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

// The values were made by encode_reference, with g++ 12 on x86-64.
const TypeDigests& Expected() {
  static const TypeDigests expected = {
      {"bf16", 1804215753095521037u},    {"f16", 9032443758147842029u},
      {"f32", 18121205002283075805u},    {"iq2_s", 9130231061973449621u},
      {"iq2_xs", 13180245054972994341u}, {"iq2_xxs", 15958258407742458477u},
      {"iq3_s", 1473393136183592810u},   {"iq3_xxs", 14958021170873088363u},
      {"iq4_nl", 9010215291016179139u},  {"iq4_xs", 7040450982593123451u},
      {"mxfp4", 9451180071989136793u},   {"q2_K", 4669910713275717747u},
      {"q3_K", 3999001481339856442u},    {"q4_0", 14613328902008489440u},
      {"q4_1", 6792981747148552393u},    {"q4_K", 14103594454765011199u},
      {"q5_0", 14853710420071598498u},   {"q5_1", 1934103691837538624u},
      {"q5_K", 14472525876864033721u},   {"q6_K", 1512340333378160449u},
      {"q8_0", 15858517055634734597u},   {"iq1_m", 3764712076652167439u},
      {"iq1_s", 6563221369620110691u},   {"nvfp4", 12119315686420771553u},
      {"tq1_0", 15043977390533596085u},  {"tq2_0", 13106944809854592613u}};
  return expected;
}

void ExpectDigests(const TypeDigests& digests, const std::string& how) {
  for (const auto& [type, digest] : digests) {
    const auto known = Expected().find(type);
    EXPECT_EQ(digest, known == Expected().end() ? 0 : known->second) << type << ", " << how;
  }
  EXPECT_EQ(digests.size(), Expected().size()) << how;
}

TEST_P(TargetsThreads, GiveTheSameDigestForEveryType) {
  const std::vector<Rows> sets = FixedRows();
  std::vector<Job> jobs;
  for (const Format* format : Encoders()) {
    for (const Rows& rows : sets) jobs.push_back({format, &rows});
  }
  for (const size_t threads : {1, 2, 8}) {
    // The first call after this selects the instruction set: in all threads at once.
    hwy::SetSupportedTargetsForTest(GetParam().target);
    ExpectDigests(DigestsOf(jobs, threads),
                  std::to_string(threads) + " threads, " + CurrentInstructionSet());
  }
}

FOR_EACH_INSTRUCTION_SET(TargetsThreads);

TEST(Targets, TheReferenceGivesTheSameDigests) {
  TypeDigests digests;
  const std::vector<Rows> sets = FixedRows();
  for (const Format* format : Encoders()) {
    for (const Rows& rows : sets) {
      auto bytes = EncodeOver(std::byte{0}, format->encode_reference, *format, rows);
      bytes.resize(bytes.size() - kGuard);
      DigestOfType(format->name, bytes, digests);
    }
  }
  ExpectDigests(digests, "the reference");
}

}  // namespace
}  // namespace quant
