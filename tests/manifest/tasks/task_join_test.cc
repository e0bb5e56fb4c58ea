#include "manifest/tasks/task_join.h"

#include <gmock/gmock.h>

#include "libshard/convert/gguf_model.h"
#include "libshard/recipe/imatrix.h"
#include "tests/manifest/tasks/task_sample.h"

namespace moepack::manifest {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class JoinTasksTest : public TasksTest {
 protected:
  void ExpectSameBytes(const WriteOptions& options, const std::vector<uint32_t>& counts) {
    const auto whole = tiny::Write(dir_ / "whole", options);
    ASSERT_TRUE(whole) << whole.error().message;
    const auto expected = tiny::Tree(dir_ / "whole");
    for (const uint32_t count : counts) {
      AllTasks(count, options);
      const auto report = Join();
      ASSERT_TRUE(report) << count << " tasks: " << report.error().message;
      EXPECT_EQ(report->tasks, count);
      EXPECT_TRUE(tiny::Tree(dir_ / "out") == expected) << count << " tasks";
      fs::remove_all(dir_ / "out");
      fs::remove_all(dir_ / "out.tasks");
    }
    fs::remove_all(dir_ / "whole");
  }
};

WriteOptions Gguf(const std::vector<std::string>& parts = {}) {
  WriteOptions options = tiny::Only(parts);
  options.gguf.emplace();
  options.gguf->recipe.recipe = "Q4_K_M";
  return options;
}

TEST_F(JoinTasksTest, AnyNumberOfTasksGivesTheBytesOfASingleRun) {
  ExpectSameBytes(tiny::Only(), {1, 2, 3, 4, 5, 6, 7, 8});
}

TEST_F(JoinTasksTest, AnyNumberOfTasksQuantizesToTheBytesOfASingleRun) {
  ExpectSameBytes(Gguf(), {1, 2, 3, 4, 5, 6, 7, 8});
}

TEST_F(JoinTasksTest, AcceptsMoreTasksThanThereIsWork) {
  ExpectSameBytes(tiny::Only({"overlay"}), {40});
  ExpectSameBytes(Gguf({"overlay"}), {40});
}

TEST_F(JoinTasksTest, PartsChunkMapsAndAlignmentEqualThoseOfASingleRun) {
  WriteOptions options = tiny::Only();
  options.slice.max_part_size = 1u << 20;
  options.pack.cell_bytes = 1u << 18;
  ExpectSameBytes(options, {3});
  options = Gguf();
  options.gguf->alignment = 4096;
  options.slice.max_part_size = 1u << 20;
  ExpectSameBytes(options, {3});
}

// No two experts and no two columns have the same importance.
void WriteUnevenImatrix(const std::string& path) {
  const auto gguf = ToGguf(tiny::Model(), {});
  ASSERT_TRUE(gguf) << gguf.error().message;
  Imatrix imatrix;
  imatrix.chunks = 1;
  imatrix.chunk_tokens = 512;
  for (const GgufTensor& tensor : gguf->tensors) {
    const size_t slices = std::max(1u, tensor.expert_count);
    std::vector<float> sums(slices * tensor.row_values());
    for (size_t i = 0; i < sums.size(); ++i) sums[i] = static_cast<float>(1 + i * i % 977);
    imatrix.entries[tensor.name] = {std::move(sums), std::vector<float>(slices, 512)};
  }
  const Status written = WriteImatrix(path, imatrix);
  ASSERT_TRUE(written) << written.error().message;
}

TEST_F(JoinTasksTest, TheImportanceOfExpertsEqualsThatOfASingleRun) {
  WriteOptions options = Gguf();
  options.gguf->imatrix_file = (dir_ / "imatrix.gguf").string();
  WriteUnevenImatrix(options.gguf->imatrix_file);
  ExpectSameBytes(options, {1, 4, 8});
}

TEST_F(JoinTasksTest, ADryRunWritesNothingAndPredictsEveryFile) {
  AllTasks(2);
  const auto before = tiny::Tree(dir_.path());
  JoinOptions options;
  options.dry_run = true;
  const auto tasks = FindTasks({(dir_ / "out.tasks").string()});
  ASSERT_TRUE(tasks);
  const auto dry = JoinTasks(*tasks, (dir_ / "out").string(), options);
  ASSERT_TRUE(dry) << dry.error().message;
  EXPECT_TRUE(tiny::Tree(dir_.path()) == before);
  ASSERT_TRUE(Join());
  EXPECT_EQ(dry->files.size(), tiny::Names(dir_ / "out").size());
  for (const JoinReport::File& file : dry->files)
    EXPECT_EQ(fs::file_size(dir_ / "out" / file.name), file.bytes) << file.name;
}

TEST_F(JoinTasksTest, NamesMissingTasks) {
  AllTasks(12);
  for (const uint32_t task : {0u, 3u, 7u}) fs::remove_all(TaskDirectory({task, 12}));
  const Error error = Refusal();
  EXPECT_EQ(error.code, Code::kNotFound);
  EXPECT_EQ(error.message, (dir_ / "out.tasks").string() +
                               ": tasks: expected 12, found 9: 0, 3 and 7 are missing");
  EXPECT_THAT(error.hint, HasSubstr("--task 0/12"));
  ASSERT_TRUE(Task({0, 12}));
  ASSERT_TRUE(Task({3, 12}));
  fs::create_directories(TaskDirectory({7, 12}).string() + ".partial");
  EXPECT_THAT(Refusal().message, HasSubstr("found 11: 7 is missing (begun and not finished: 7)"));
  fs::remove_all(TaskDirectory({7, 12}).string() + ".partial");
  // As where there are no locks.
  fs::create_directories(TaskDirectory({7, 12}).string() + ".partial-node7-4026531836-12");
  EXPECT_THAT(Refusal().message, HasSubstr("found 11: 7 is missing (begun and not finished: 7)"));
  ASSERT_TRUE(Task({7, 12}));
  EXPECT_TRUE(Join());
  for (uint32_t task = 1; task < 12; ++task) fs::remove_all(TaskDirectory({task, 12}));
  EXPECT_THAT(Refusal().message, HasSubstr("1, 2, 3, 4, 5, 6, 7, 8 and 3 more are missing"));
}

TEST_F(JoinTasksTest, SaysThatNoTaskIsDone) {
  fs::create_directories(dir_ / "out.tasks/00001-of-00002.partial");
  EXPECT_THAT(Refusal().message, HasSubstr("out.tasks: expected tasks that are done, found none"));
}

TEST_F(JoinTasksTest, TasksOfSeveralMachinesMayBeAnywhereAndDuplicated) {
  AllTasks(3);
  ASSERT_TRUE(Join("whole"));
  fs::create_directories(dir_ / "a");
  fs::create_directories(dir_ / "b");
  fs::rename(TaskDirectory({1, 3}), dir_ / "a/mine");
  fs::copy(TaskDirectory({2, 3}), dir_ / "b/again", fs::copy_options::recursive);
  const auto report = Join("out", {"b/again", "a/mine", "out.tasks"});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(tiny::Tree(dir_ / "out") == tiny::Tree(dir_ / "whole"));
}

TEST_F(JoinTasksTest, RefusesTasksOfOtherWork) {
  AllTasks(2);
  WriteOptions other = tiny::Only();
  other.model_id = "another/name";
  AllTasks(2, other, "other");
  fs::remove_all(TaskDirectory({1, 2}));
  const Error error = Refusal({"out.tasks", "other.tasks"});
  EXPECT_EQ(error.code, Code::kMismatch);
  EXPECT_THAT(error.message, HasSubstr("other.tasks/00000-of-00002/task.json: work: expected "));
  AllTasks(3, tiny::Only(), "three");
  EXPECT_THAT(Refusal({"out.tasks", "three.tasks"}).message,
              HasSubstr("three.tasks/00000-of-00003/task.json: tasks: expected 2, found 3"));
}

TEST_F(JoinTasksTest, TasksAndDistributionsAreNotJoinedTogether) {
  AllTasks(2);
  ASSERT_TRUE(tiny::Write(dir_ / "part", tiny::Only({"trunk"})));
  EXPECT_THAT(Refusal({"out.tasks", "part"}).message, HasSubstr("part: expected tasks, as in "));
}

TEST_F(JoinTasksTest, ADamagedTaskIsNotJoined) {
  AllTasks(2);
  const fs::path piece = TaskDirectory({1, 2}) / "groups/002/experts.safetensors.piece";
  const std::string whole = fixtures::ReadFile(piece);
  std::string bytes = whole;
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  fixtures::WriteFile(piece, bytes);
  Error error = Refusal();
  EXPECT_EQ(error.code, Code::kMismatch);
  EXPECT_THAT(error.message, HasSubstr(piece.string() + ": sha256: expected "));
  EXPECT_THAT(error.hint, HasSubstr("run again, with --force"));
  fs::resize_file(piece, 10);
  EXPECT_THAT(Refusal().message, HasSubstr(piece.string() + ": file size: expected "));
  fs::remove(piece);
  EXPECT_EQ(Refusal().code, Code::kNotFound);
  ASSERT_TRUE(Task({1, 2}, tiny::Only(), "out", true));
  EXPECT_TRUE(Join());
}

TEST_F(JoinTasksTest, ADamagedCopyOfATaskIsNotJoinedWhateverTheOrder) {
  AllTasks(2);
  fs::create_directories(dir_ / "b");
  for (const uint32_t task : {0u, 1u})
    fs::copy(TaskDirectory({task, 2}), dir_ / "b" / TaskName({task, 2}),
             fs::copy_options::recursive);
  const fs::path copy = dir_ / "b" / TaskName({0, 2});
  for (const char* name : {"task.json", "planned.json", "assets/config.json",
                           "groups/000/experts.safetensors.piece"}) {
    const std::string whole = fixtures::ReadFile(copy / name);
    std::string bytes = whole;
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    fixtures::WriteFile(copy / name, bytes);
    for (const auto& order : {std::vector<std::string>{"out.tasks", "b"}, {"b", "out.tasks"}}) {
      const Error error = Refusal(order);
      EXPECT_THAT(error.code, testing::AnyOf(Code::kMismatch, Code::kCorrupt)) << name;
      EXPECT_THAT(error.message, HasSubstr(name));
    }
    fixtures::WriteFile(copy / name, whole);
  }
  EXPECT_TRUE(Join("out", {"out.tasks", "b"}));
}

TEST_F(JoinTasksTest, AChangedPlanOfTheOutputIsRefused) {
  AllTasks(2);
  const fs::path planned = TaskDirectory({0, 2}) / kPlannedFile;
  std::string text = fixtures::ReadFile(planned);
  const std::string from = "\"complete\": true";
  ASSERT_NE(text.find(from), std::string::npos);
  text.replace(text.find(from), from.size(), "\"complete\": false");
  fixtures::WriteFile(planned, text);
  const Error error = Refusal();
  EXPECT_EQ(error.code, Code::kMismatch);
  EXPECT_THAT(error.message, HasSubstr(planned.string() + ": sha256: expected "));
  EXPECT_THAT(error.hint, HasSubstr("run again, with --force"));
}

TEST_F(JoinTasksTest, FollowsALinkToATaskOnAnotherDisk) {
  AllTasks(2);
  fs::rename(TaskDirectory({1, 2}), dir_ / "elsewhere");
  fs::create_directory_symlink(dir_ / "elsewhere", TaskDirectory({1, 2}));
  const auto report = Join();
  EXPECT_TRUE(report) << report.error().message;
}

TEST_F(JoinTasksTest, NamesADirectoryThatIsNotThere) {
  const Error error = Refusal({"nothere"});
  EXPECT_EQ(error.code, Code::kNotFound);
  EXPECT_THAT(error.message, HasSubstr("nothere: expected tasks or a distribution, found no such"));
}

TEST_F(JoinTasksTest, SaysHowPartsComeToAnExistingDistribution) {
  ASSERT_TRUE(tiny::Write(dir_ / "out", tiny::Only({"trunk"})));
  AllTasks(2, tiny::Only({"group:1"}));
  const auto refused = Join();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("out already exists"));
  EXPECT_THAT(refused.error().hint, HasSubstr("join them in a new directory"));
  // The advice would not help where something else is in the way.
  fs::create_directory(dir_ / "other");
  fixtures::WriteFile(dir_ / "other/notes.txt", "mine");
  const auto tasks = FindTasks({(dir_ / "out.tasks").string()});
  ASSERT_TRUE(tasks);
  const auto other = JoinTasks(*tasks, (dir_ / "other").string(), {});
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().hint, HasSubstr("or choose another output"));
  fixtures::WriteFile(dir_ / "out/notes.txt", "mine");
  JoinOptions force;
  force.force = true;
  const auto foreign = JoinTasks(*tasks, (dir_ / "out").string(), force);
  ASSERT_FALSE(foreign);
  EXPECT_THAT(foreign.error().message, HasSubstr("notes.txt"));
  EXPECT_THAT(foreign.error().hint, testing::Not(HasSubstr("new directory")));
}

TEST_F(JoinTasksTest, KeepsAnExistingOutput) {
  AllTasks(2);
  ASSERT_TRUE(Join());
  EXPECT_THAT(Join().error().message, HasSubstr("out already exists"));
  EXPECT_THAT(Join("out.tasks/00001-of-00002/x").error().message, HasSubstr("lies inside"));
}

// Pieces with contents that no task may have.
TEST_F(JoinTasksTest, ATaskRecordThatWasChangedIsRefused) {
  AllTasks(2);
  const fs::path path = TaskDirectory({1, 2}) / kTaskFile;
  const auto change = [&](const auto& edit) {
    const std::string text = fixtures::ReadFile(path);
    auto record = ParseTaskRecord("task.json", text);
    ASSERT_TRUE(record) << record.error().message;
    edit(*record);
    fixtures::WriteFile(path, WriteTaskRecord(*record));
    EXPECT_EQ(Refusal().code, Code::kCorrupt);
    fixtures::WriteFile(path, text);
  };
  change([](TaskRecord& record) { record.pieces[0].output = 99; });
  change([](TaskRecord& record) { record.pieces[0].runs.clear(); });
  change([](TaskRecord& record) { record.pieces[0].runs[0].file -= 1; });
  change([](TaskRecord& record) { record.pieces[0].runs[0].bytes -= 1; });
  change([](TaskRecord& record) { record.pieces[0].runs.back().file += 1u << 30; });
}

// Each cell costs a digest in memory and in the manifest.
TEST_F(JoinTasksTest, ATaskThatAsksForTooManyCellsIsRefused) {
  AllTasks(1);
  const fs::path path = TaskDirectory({0, 1}) / kTaskFile;
  auto record = ParseTaskRecord("task.json", fixtures::ReadFile(path));
  ASSERT_TRUE(record) << record.error().message;
  record->cell_bytes = 1;
  fixtures::WriteFile(path, WriteTaskRecord(*record));
  const Error error = Refusal();
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_EQ(error.message, path.string() +
                               ": cell_bytes: expected a size that makes at most "
                               "4194304 cells of all files, found 1");
}

}  // namespace
}  // namespace moepack::manifest
