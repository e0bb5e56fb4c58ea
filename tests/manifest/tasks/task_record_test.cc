#include "manifest/tasks/task_record.h"

#include <gmock/gmock.h>

namespace moepack::manifest {
namespace {

using testing::HasSubstr;

TaskRecord Sample() {
  TaskRecord record;
  record.number = {0, 16};
  record.work = std::string(64, 'a');
  record.stem = "model";
  record.pieces = {
      {0, "trunk.gguf.piece", 100, std::string(64, 'b'), {{10, 20, 30}, {50, 60, 50}}}};
  record.outputs = {{"trunk.gguf", 1000, 10, 900}};
  record.cell_bytes = 64;
  record.planned_sha256 = std::string(64, 'c');
  return record;
}

// The error after one replacement in the text of the sample.
Error Refused(const std::string& from, const std::string& to) {
  std::string text = WriteTaskRecord(Sample());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  const auto record = ParseTaskRecord("task.json", text);
  EXPECT_FALSE(record) << text;
  return record ? Error{Code::kIo, ""} : record.error();
}

TEST(TaskRecord, ReadsBackAsItWasWritten) {
  const std::string text = WriteTaskRecord(Sample());
  const auto record = ParseTaskRecord("task.json", text);
  ASSERT_TRUE(record) << record.error().message;
  EXPECT_EQ(WriteTaskRecord(*record), text);
  EXPECT_EQ(record->number, (TaskNumber{0, 16}));
  EXPECT_EQ(record->pieces[0].runs[1], (PieceRun{50, 60, 50}));
}

TEST(TaskRecord, RefusesInvalidRecords) {
  EXPECT_THAT(Refused("moepack-task", "other").message, HasSubstr("format: expected moepack-task"));
  EXPECT_EQ(Refused("\"version\": 2", "\"version\": 1").code, Code::kUnsupported);
  EXPECT_THAT(Refused("\"task\": 0", "\"task\": 16").message, HasSubstr("task"));
  EXPECT_THAT(Refused("\"tasks\": 16", "\"tasks\": 0").message, HasSubstr("tasks: expected"));
  EXPECT_THAT(Refused("trunk.gguf.piece", "../piece").message, HasSubstr("../piece"));
  EXPECT_THAT(Refused("trunk.gguf\"", "/trunk\"").message, HasSubstr("/trunk"));
  EXPECT_THAT(Refused(std::string(64, 'b'), "b").message, HasSubstr("sha256"));
  EXPECT_THAT(Refused("\"header\": 10", "\"header\": 1001").message, HasSubstr("header"));
  EXPECT_EQ(Refused("\"cell_bytes\": 64", "\"cell_bytes\": 9223372036854775808").message,
            "task.json: cell_bytes: expected at most 9223372036854775807, found "
            "9223372036854775808");
  EXPECT_THAT(Refused("\"cell_bytes\": 64", "\"cell_bytes\": 0").message,
              HasSubstr("cell_bytes: expected a number of bytes above 0, found 0"));
  EXPECT_THAT(Refused("\"cell_bytes\": 64", "\"cell_bytes\": -1").message,
              HasSubstr("cell_bytes: expected a whole number"));
  EXPECT_THAT(Refused("\"payload\": 900", "\"payload\": 991").message, HasSubstr("payload"));
}

TEST(TaskRecord, RefusesWorkWithoutOutputs) {
  std::string text = WriteTaskRecord(Sample());
  const size_t begin = text.find("\"outputs\": [") + 12, end = text.rfind(']');
  text.replace(begin, end - begin, "");
  const auto record = ParseTaskRecord("task.json", text);
  ASSERT_FALSE(record) << text;
  EXPECT_THAT(record.error().message, HasSubstr("outputs: expected at least one"));
}

TEST(TaskRecord, RefusesRunsThatOverlapOrLeaveTheirPiece) {
  const char* const wrong[] = {
      "50, 60, 51",     "39, 60, 50", "50, 49, 50", "50, 60, 0", "50, 18446744073709551615, 50",
      "\"50\", 60, 50", "50, 60"};
  for (const char* run : wrong)
    EXPECT_THAT(Refused("50, 60, 50", run).message, HasSubstr("task.json: piece 0")) << run;
}

TEST(TaskRecord, KnowsFromItsDigestWhetherItWasChanged) {
  std::string text = WriteTaskRecord(Sample());
  const auto record = ReadTaskRecord("task.json", text);
  ASSERT_TRUE(record) << record.error().message;
  EXPECT_EQ(WriteTaskRecord(*record), text);
  const std::string from = "\"header\": 10";
  text.replace(text.find(from), from.size(), "\"header\": 2");
  const auto changed = ReadTaskRecord("task.json", text);
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code, Code::kMismatch);
  EXPECT_THAT(changed.error().message, HasSubstr("task.json: sha256: expected " + record->sha256));
  EXPECT_THAT(changed.error().hint, HasSubstr("run again, with --force"));
}

TEST(TaskRecord, NamesTheDirectoryOfATaskByItsNumber) {
  EXPECT_EQ(TasksDirectory("/data/out//"), "/data/out.tasks");
  EXPECT_EQ(TaskName({3, 16}), "00003-of-00016");
}

}  // namespace
}  // namespace moepack::manifest
