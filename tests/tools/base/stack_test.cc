#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include "fixtures/sanitizers.h"
#include "tests/tools/child_process.h"

namespace moepack::cli {
namespace {

class SmallStack : public ::testing::Test {
 protected:
  void SetUp() override {
    if (fixtures::kSanitizedMemory) GTEST_SKIP() << "sanitizers need a stack of their own";
  }
  // Under `ulimit -s 64`, which no process can raise again.
  ChildEnd Run(const std::vector<std::string>& arguments) const {
    ChildProcess child(workspace_.path(), arguments, [] {
      const rlimit limit{64 << 10, 64 << 10};
      setrlimit(RLIMIT_STACK, &limit);
      alarm(120);
    });
    return child.Wait();
  }
  void ExpectDone(const std::vector<std::string>& arguments) const {
    const ChildEnd end = Run(arguments);
    EXPECT_EQ(end.signal, 0) << arguments[0];
    EXPECT_EQ(end.status, 0) << arguments[0] << ": " << end.err;
  }

  Workspace workspace_;
};

TEST_F(SmallStack, CommandsWorkUnderALimitOf64Kilobytes) {
  ExpectDone({"help"});
  ExpectDone({"list-tensors", "fixtures/tiny-moe"});
  ExpectDone({"build", "fixtures/tiny-moe", "--groups", "2", "--quantize", "Q4_K_M",
              "--tensor-type", "ffn_(gate|up)_exps=q5_K", "-o", "out"});
  ExpectDone({"verify", "out", "--against", "fixtures/tiny-moe"});
  ExpectDone({"profile", "fixtures/tiny-moe", "--text", "fixtures/texts/header.txt"});
}

TEST_F(SmallStack, ErrorsKeepTheirStatus) {
  const ChildEnd end = Run({"list-tensors", "missing"});
  EXPECT_EQ(end.status, 5) << end.err;
  EXPECT_EQ(Run({"biuld"}).status, 2);
}

}  // namespace
}  // namespace moepack::cli
