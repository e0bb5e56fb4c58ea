// Calibrations that several tasks do together.
#include <gmock/gmock.h>

#include <memory>
#include <sstream>

#include "tests/tools/child_process.h"

namespace moepack::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* kShared =
    "quantize fixtures/tiny-moe --recipe Q4_K_M --calibrate fixtures/texts/manual.md "
    "--most-tokens 400 --context 64 --least-tokens 8 ";

class SharedCalibration : public testing::Test {
 protected:
  // Runs commands at the same time, each with its exit status in a file.
  void RunTogether(const std::vector<std::string>& commands) const {
    std::string all = "--version >/dev/null";
    for (size_t i = 0; i < commands.size(); ++i) {
      const std::string name = std::to_string(i);
      all += "\n{ '" MOEPACK_BINARY "' " + commands[i] + " >" + name + ".out 2>" + name +
             ".err; echo $? >" + name + ".rc; } &";
    }
    EXPECT_EQ(workspace_.Moepack(all + "\nwait").status, 0);
  }
  std::string Read(const std::string& name) const { return ReadFile(workspace_ / name); }
  static std::vector<std::string> Words(const std::string& rest) {
    std::istringstream text(kShared + rest);
    return {std::istream_iterator<std::string>(text), {}};
  }
  void ExpectDone(size_t command) const {
    const std::string name = std::to_string(command);
    EXPECT_EQ(Read(name + ".rc"), "0\n") << Read(name + ".err");
  }
  Workspace workspace_;
};

TEST_F(SharedCalibration, MakesTheStoreAndTheFileOfOneRun) {
  const ToolRun whole = workspace_.Moepack(std::string(kShared) + "-o whole.gguf");
  ASSERT_EQ(whole.status, 0) << whole.err;
  RunTogether({std::string(kShared) + "-o out.gguf --task 0/2 --jobs 1",
               std::string(kShared) + "-o out.gguf --task 1/2 --jobs 2"});
  ExpectDone(0);
  ExpectDone(1);
  for (const char* file : {"calibration.json", "layer-000.bin", "layer-002.bin", "layer-003.bin"})
    EXPECT_EQ(Read(std::string("out.gguf.calibrated/") + file),
              Read(std::string("whole.gguf.calibrated/") + file))
        << file;
  const ToolRun join = workspace_.Moepack("join out.gguf.tasks -o out.gguf");
  ASSERT_EQ(join.status, 0) << join.err;
  EXPECT_EQ(Read("out.gguf"), Read("whole.gguf"));
  // A task that lost all it wrote goes on from the whole store, and needs nobody.
  fs::remove_all(workspace_ / "out.gguf.calibrated.tasks/00001-of-00002");
  fs::remove_all(workspace_ / "out.gguf.tasks/00001-of-00002");
  const ToolRun again = workspace_.Moepack(std::string(kShared) + "-o out.gguf --task 1/2");
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("; done before"));
}

// It is gone in the middle; another one, with other threads, goes on with its number.
TEST_F(SharedCalibration, AMachineThatIsLostIsReplaced) {
  const ToolRun whole = workspace_.Moepack(std::string(kShared) + "-o whole.gguf");
  ASSERT_EQ(whole.status, 0) << whole.err;
  const std::string record = "out.gguf.calibrated.tasks/00001-of-00002/calibration.json";
  ChildProcess first(workspace_.path(), Words(" -o out.gguf --jobs 1 --task 0/2"));
  ChildProcess lost(workspace_.path(), Words(" -o out.gguf --jobs 1 --task 1/2"));
  const auto begun = [&] { return Read(record).find("\"layer\": 0") != std::string::npos; };
  for (int i = 0; i < 12'000 && !begun(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  lost.Kill(SIGKILL);
  EXPECT_EQ(lost.Wait().signal, SIGKILL);
  const ToolRun other =
      workspace_.Moepack(std::string(kShared) + "-o out.gguf --jobs 2 --task 1/2");
  EXPECT_EQ(other.status, 0) << other.err;
  const ChildEnd end = first.Wait();
  EXPECT_EQ(end.status, 0) << end.err;
  ASSERT_EQ(workspace_.Moepack("join out.gguf.tasks -o out.gguf").status, 0);
  EXPECT_EQ(Read("out.gguf"), Read("whole.gguf"));
}

TEST_F(SharedCalibration, TasksWithAStoreNeedNoText) {
  ASSERT_EQ(workspace_.Moepack(std::string(kShared) + "-o whole.gguf").status, 0);
  for (const char* task : {"0/2", "1/2"}) {
    const ToolRun run = workspace_.Moepack(
        std::string("quantize fixtures/tiny-moe --recipe Q4_K_M --calibrated-store "
                    "whole.gguf.calibrated -o out.gguf --task ") +
        task);
    ASSERT_EQ(run.status, 0) << run.err;
  }
  ASSERT_EQ(workspace_.Moepack("join out.gguf.tasks -o out.gguf").status, 0);
  EXPECT_EQ(Read("out.gguf"), Read("whole.gguf"));
}

// What the first task wrote runs in the others, too.
TEST_F(SharedCalibration, AWholeStoreThatDoesNotFitIsRefused) {
  ASSERT_EQ(workspace_.Moepack(std::string(kShared) + "-o out.gguf").status, 0);
  const std::string record = "out.gguf.calibrated/calibration.json";
  nlohmann::ordered_json changed = nlohmann::ordered_json::parse(Read(record));
  changed["layers"][1]["tensors"][0]["name"] = "blk.1.other.weight";
  WriteAll(workspace_ / record, changed.dump());
  const ToolRun run = workspace_.Moepack(std::string(kShared) + "-o out.gguf --task 1/2");
  EXPECT_EQ(run.status, 6) << run.err;
  EXPECT_THAT(run.err, HasSubstr("out.gguf.calibrated: tensor \"blk.1.other.weight\": expected "
                                 "one that is calibrated, found another"));
}

TEST_F(SharedCalibration, ADryRunSaysWhatOneOfTheMachinesTakes) {
  const std::string build =
      "build fixtures/tiny-moe --groups 2 --quantize Q4_K_M --calibrate fixtures/texts/manual.md "
      "--calibrate-most-tokens 400 --calibrate-context 64 -o out ";
  for (const std::string& command : {std::string(kShared) + "-o out.gguf ", build}) {
    const ToolRun run = workspace_.Moepack(command + "--dry-run --task 1/8");
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("would write "));
    EXPECT_THAT(run.out, HasSubstr(" on this machine; about "));
    EXPECT_THAT(run.out, HasSubstr(" on 8 like it (--task)\n"));
    const nlohmann::json needs =
        workspace_.Json(command + "--dry-run --json --task 0/8")["calibration"];
    EXPECT_EQ(needs["machines"], 8);
    EXPECT_LT(needs["seconds_of_one"].get<double>(), needs["seconds"].get<double>());
    // Every machine runs both streams.
    EXPECT_GT(needs["seconds_of_one"].get<double>(), needs["seconds"].get<double>() / 8);
  }
  for (const char* made : {".calibrated", ".tasks"})
    EXPECT_EQ(workspace_.Listing().find(made), std::string::npos) << made;
}

TEST_F(SharedCalibration, TasksThatCalibrateSomethingElseAreRefused) {
  // Each waits for the other, and then finds it.
  RunTogether({std::string(kShared) + "-o out.gguf --task 0/2",
               std::string(kShared) + "-o out.gguf --shrink 2 --task 1/2"});
  for (const char* task : {"0", "1"}) {
    const std::string errors = Read(std::string(task) + ".err");
    EXPECT_EQ(Read(std::string(task) + ".rc"), "6\n") << errors;
    EXPECT_THAT(errors, HasSubstr("parameter shrink: expected "));
    EXPECT_THAT(errors, HasSubstr("tasks work together only if they calibrate the same"));
  }
}

TEST_F(SharedCalibration, OtherInstructionsAreRefused) {
  RunTogether({std::string(kShared) + "-o out.gguf --task 0/2",
               std::string(kShared) + "-o out.gguf --task 1/2"});
  ExpectDone(0);
  const std::string record = "out.gguf.calibrated.tasks/00001-of-00002/calibration.json";
  std::string text = Read(record);
  const std::string name = "\"instructions\": \"";
  const size_t at = text.find(name);
  ASSERT_NE(at, std::string::npos);
  WriteAll(workspace_ / record, text.replace(at, name.size(), name + "other than "));
  fs::remove_all(workspace_ / "out.gguf.calibrated");
  for (const char* task : {"0/2", "1/2"}) {
    const ToolRun run = workspace_.Moepack(std::string(kShared) + "-o out.gguf --task " + task);
    EXPECT_EQ(run.status, 6) << run.err;
    EXPECT_THAT(run.err, HasSubstr("00001-of-00002: parameter instructions: expected "));
  }
}

}  // namespace
}  // namespace moepack::cli
