// The promise of a refit, in short: two nodes that answer almost like the whole model, quantized
// and verified. The same split without a refit fails the same gate.
#include <gmock/gmock.h>

#include <cstdlib>
#include <sstream>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kBuild =
    "build fixtures/tiny-moe --groups 2 --statistics s.json --quantize Q4_K_M ";
constexpr const char* kGate =
    " --against fixtures/tiny-moe --text held-out.jsonl --generate 0 --gate 'kld<=0.25' --gate "
    "'each.kld<=0.25'";

// In `make soak` (MOEPACK_SOAK is set) the weights are changed as often as usual.
const std::string kRefit =
    std::getenv("MOEPACK_SOAK") == nullptr ? "--refit --updates 60 " : "--refit ";

class RefitGate : public testing::Test {
 protected:
  // Two sessions share more than a tenth of their runs of 12 tokens with calibration text, so they
  // are left out.
  RefitGate() {
    std::istringstream all(ReadFile(workspace_ / "fixtures/texts/held-out.jsonl"));
    std::string held_out, line;
    while (std::getline(all, line)) {
      const bool overlaps = line.find("\"c-11\"") != std::string::npos ||
                            line.find("\"python-03\"") != std::string::npos;
      if (!overlaps) held_out += line + "\n";
    }
    WriteAll(workspace_ / "held-out.jsonl", held_out);
  }

  void ExpectDone(const std::string& arguments) const {
    const ToolRun run = workspace_.Moepack(arguments);
    EXPECT_EQ(run.status, 0) << arguments << "\n" << run.out << run.err;
  }

  Workspace workspace_;
};

TEST_F(RefitGate, EveryRefittedNodePassesAGateThatNoUnrefittedOneDoes) {
  ExpectDone("profile fixtures/tiny-moe --text fixtures/texts/calibration.jsonl -o s.json");
  ExpectDone(kBuild + kRefit +
             "--text fixtures/texts/calibration.jsonl --held-out-text held-out.jsonl "
             "-o refitted");
  ExpectDone("verify refitted --against fixtures/tiny-moe --imatrix refitted.refit/imatrix.gguf");
  ExpectDone("check refitted");
  for (const char* group : {"0", "1"})
    ExpectDone(std::string("assemble refitted --group ") + group + " -o node-" + group);
  ExpectDone(std::string("eval refitted") + kGate);

  ExpectDone(std::string(kBuild) + "-o plain");
  const ToolRun plain = workspace_.Moepack(std::string("eval plain") + kGate);
  EXPECT_EQ(plain.status, 6);
  EXPECT_THAT(plain.err, AllOf(HasSubstr("group 0: kld: expected <= 0.25, found "),
                               HasSubstr("group 1: kld: expected <= 0.25, found ")));
}

}  // namespace
}  // namespace moepack::cli
