// Outputs that cannot be replaced with a rename: mount points, such as volumes of a container, and
// directories of a lower layer of overlayfs. Everything is mounted in a namespace of its own.
#include <gmock/gmock.h>

#include "libshard/base/text/text.h"
#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

constexpr int kCannotMount = 77;

class MountedOutputs : public testing::Test {
 protected:
  // Runs `mounts`, then `script`, in the workspace; $moepack is the program.
  ToolRun InNamespace(const std::string& mounts, const std::string& script) const {
    const std::string file = workspace_ / "script.sh";
    WriteAll(file,
             Cat("cd '", workspace_.path().string(), "' || exit 77\nmoepack='", MOEPACK_BINARY,
                 "'\n{ ", mounts, "; } 2>/dev/null || exit 77\nset -e\n", script, "\n"));
    const std::string out = workspace_ / "script.out", err = workspace_ / "script.err";
    const std::string command =
        Cat("unshare -m --propagation private sh '", file, "' >'", out, "' 2>'", err, "'");
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, ReadFile(out), ReadFile(err)};
  }
  static bool Unsupported(const ToolRun& run) {
    return run.status == kCannotMount || run.err.find("unshare:") != run.err.npos;
  }
  // The output of a command is a directory `volume` that is mounted at `out`.
  ToolRun InVolume(const std::string& script) const {
    fs::create_directories(workspace_ / "volume");
    fs::create_directories(workspace_ / "out");
    return InNamespace("mount --bind volume out", script);
  }
  std::vector<std::string> Volume() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(workspace_ / "volume"))
      names.push_back(entry.path().filename());
    return names;
  }
  void Make(const std::string& arguments) const {
    const ToolRun run = workspace_.Moepack(arguments);
    ASSERT_EQ(run.status, 0) << run.err;
  }

  Workspace workspace_;
};

#define SKIP_WITHOUT_MOUNTS(run) \
  if (Unsupported(run)) GTEST_SKIP() << "nothing may be mounted here: " << (run).err

TEST_F(MountedOutputs, EveryCommandThatWritesADirectoryWritesIntoAVolume) {
  Make("build fixtures/tiny-moe --groups 2 --format gguf -o dist");
  Make("build fixtures/tiny-moe --groups 2 --format gguf --task 0/1 -o share");
  Make("shard-experts fixtures/tiny-moe --groups 2 --only trunk,group:0 -o part-0");
  Make("shard-experts fixtures/tiny-moe --groups 2 --only assets,group:1 -o part-1");
  const std::map<std::string, std::string> commands = {
      {"build fixtures/tiny-moe --groups 2 -o out", "distribution.json"},
      {"shard-experts fixtures/tiny-moe --groups 2 -o out", "distribution.json"},
      {"quantize dist --recipe Q8_0 -o out", "distribution.json"},
      {"assemble dist --group 1 -o out", "moepack_node.json"},
      {"assemble dist --group 1 --link symlink -o out", "moepack_node.json"},
      {"join part-0 part-1 -o out", "distribution.json"},
      {"join share.tasks -o out", "distribution.json"},
      {"overlay dist --overlay-file fixtures/tiny-overlay.json --source fixtures/tiny-moe -o out",
       "distribution.json"},
      {"publish dist --to-dir out", "distribution.json"},
      {"publish dist layout:out:v1", "index.json"},
      {"pull dist --group 1 -o out", "distribution.json"}};
  for (const auto& [command, file] : commands) {
    fs::remove_all(workspace_ / "volume");
    const ToolRun run = InVolume("$moepack " + command);
    SKIP_WITHOUT_MOUNTS(run);
    EXPECT_EQ(run.status, 0) << command << "\n" << run.err;
    EXPECT_TRUE(fs::exists(workspace_ / "volume" / file)) << command;
    EXPECT_FALSE(fs::exists(workspace_ / "volume/.moepack.partial")) << command;
    EXPECT_FALSE(fs::exists(workspace_ / "out.partial")) << command;
  }
}

TEST_F(MountedOutputs, ATaskWritesIntoAVolume) {
  fs::create_directories(workspace_ / "out.tasks/00001-of-00002");
  fs::create_directories(workspace_ / "volume");
  const ToolRun run =
      InNamespace("mount --bind volume out.tasks/00001-of-00002",
                  "$moepack build fixtures/tiny-moe --groups 2 --task 1/2 -o out\n"
                  "$moepack build fixtures/tiny-moe --groups 2 --task 1/2 -o out --force");
  SKIP_WITHOUT_MOUNTS(run);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(fs::exists(workspace_ / "volume/task.json"));
}

TEST_F(MountedOutputs, ForceReplacesWhatAVolumeHoldsAndPartsAreAddedToIt) {
  const ToolRun run = InVolume(
      "$moepack shard-experts fixtures/tiny-moe --groups 2 --only trunk,assets,group:0 -o out\n"
      "$moepack shard-experts fixtures/tiny-moe --groups 2 --only group:1 -o out\n"
      "$moepack verify out\n"
      "$moepack build fixtures/tiny-moe --groups 3 --format gguf -o out && exit 9\n"
      "$moepack build fixtures/tiny-moe --groups 3 --format gguf --force -o out\n"
      "$moepack verify out --strict\n"
      "$moepack pull out --group 1 -o pulled\n");
  SKIP_WITHOUT_MOUNTS(run);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_FALSE(fs::exists(workspace_ / "volume/groups/000/experts.safetensors"));
  EXPECT_TRUE(fs::exists(workspace_ / "volume/groups/002/experts.gguf"));
  EXPECT_THAT(Volume(), Not(testing::Contains(HasSubstr("moepack."))));
}

TEST_F(MountedOutputs, TheLostAndFoundOfAVolumeIsNoPartOfTheOutput) {
  const ToolRun run = InVolume(
      "mkdir out/lost+found && echo x > out/lost+found/f\n"
      "$moepack build fixtures/tiny-moe --groups 2 -o out\n"
      "$moepack build fixtures/tiny-moe --groups 3 --force -o out\n"
      "$moepack verify out --strict\n");
  SKIP_WITHOUT_MOUNTS(run);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(fs::exists(workspace_ / "volume/lost+found/f"));
}

// Elsewhere the name means nothing.
TEST_F(MountedOutputs, ForceKeepsALostAndFoundOfAnOrdinaryOutput) {
  Make("build fixtures/tiny-moe --groups 2 -o out");
  WriteAll(workspace_ / "out/lost+found/f", "precious");
  const ToolRun run = workspace_.Moepack("build fixtures/tiny-moe --groups 3 --force -o out");
  EXPECT_EQ(run.status, 2) << run.err;
  EXPECT_THAT(run.err, HasSubstr("holds \"lost+found/f\", which moepack did not write"));
  EXPECT_EQ(ReadFile(workspace_ / "out/lost+found/f"), "precious");
}

TEST_F(MountedOutputs, AStrayFileInAVolumeIsNamedAtOnce) {
  const ToolRun run = InVolume(
      "echo x > out/notes.txt\n$moepack build fixtures/tiny-moe --groups 2 -o out || exit $?");
  SKIP_WITHOUT_MOUNTS(run);
  EXPECT_EQ(run.status, 2) << run.err;
  EXPECT_THAT(run.err, HasSubstr("out already exists, and holds \"notes.txt\""));
}

TEST_F(MountedOutputs, AMountInsideAnOldTaskIsNamedBeforeTheWork) {
  Make("build fixtures/tiny-moe --groups 2 --task 0/2 -o out");
  const std::string task = "out.tasks/00000-of-00002";
  fs::create_directories(workspace_ / "volume");
  WriteAll(workspace_ / "volume/precious.txt", "precious");
  const ToolRun run = InNamespace(
      Cat("mount --bind volume ", task, "/assets"),
      "$moepack build fixtures/tiny-moe --groups 2 --task 0/2 -o out --force || exit $?");
  SKIP_WITHOUT_MOUNTS(run);
  EXPECT_EQ(run.status, 2) << run.err;
  EXPECT_THAT(run.err, HasSubstr(task + "/assets is a mount point, which cannot be replaced"));
  EXPECT_EQ(ReadFile(workspace_ / "volume/precious.txt"), "precious");
}

TEST_F(MountedOutputs, AMountInsideAnOldOutputIsNamedBeforeTheWork) {
  Make("build fixtures/tiny-moe --groups 2 -o out");
  fs::create_directories(workspace_ / "volume");
  const std::string build = "$moepack build fixtures/tiny-moe --groups 3 --force -o out || exit $?";
  const ToolRun run = InNamespace("mount --bind volume out/groups", build);
  SKIP_WITHOUT_MOUNTS(run);
  EXPECT_EQ(run.status, 2) << run.err;
  EXPECT_THAT(run.err, HasSubstr("out/groups is a mount point, which cannot be replaced"));
  EXPECT_FALSE(fs::exists(workspace_ / "out.partial"));
  Make("verify out");
}

TEST_F(MountedOutputs, ForceReplacesTheCurrentDirectoryAndLeavesTheShellInIt) {
  Make("build fixtures/tiny-moe --groups 2 -o out");
  const std::string file = workspace_ / "script.sh";
  WriteAll(file, Cat("cd '", (workspace_ / "out").string(), "' && '", MOEPACK_BINARY, "' build '",
                     (workspace_ / "fixtures/tiny-moe").string(),
                     "' --groups 3 --format gguf --force -o . >../log 2>&1 && ls distribution.json"
                     " >/dev/null\n"));
  EXPECT_EQ(std::system(Cat("sh '", file, "'").c_str()), 0) << ReadFile(workspace_ / "log");
  Make("verify out --strict");
}

// The files that are the same in both versions are hard links of the old ones.
TEST_F(MountedOutputs, AKilledUpdateOfAVolumeIsMendedByTheNextOne) {
  if (std::system("strace -o /dev/null true 2>/dev/null") != 0)
    GTEST_SKIP() << "strace does not work here";
  Make("build fixtures/tiny-moe --groups 2 -o dist");
  Make("build fixtures/tiny-moe --groups 3 -o newer");
  for (int call = 3; call <= 15; call += 2) {
    fs::remove_all(workspace_ / "volume");
    const ToolRun run = InVolume(
        Cat("$moepack pull dist --group 0 -o out\nstrace -f -o trace -e inject=unlinkat:signal=KILL"
            ":when=",
            call,
            " $moepack pull newer --group 0 --update -o out && exit 9\n"
            "$moepack pull newer --group 0 --update -o out\n$moepack verify out"));
    SKIP_WITHOUT_MOUNTS(run);
    EXPECT_EQ(run.status, 0) << call << "\n" << run.err;
  }
}

// Stock loaders take a directory with config.json and the index for a model.
TEST_F(MountedOutputs, ANodeThatIsHalfPublishedIsNoModelForAnybody) {
  if (std::system("strace -o /dev/null true 2>/dev/null") != 0)
    GTEST_SKIP() << "strace does not work here";
  Make("build fixtures/tiny-moe --groups 2 -o dist");
  for (int call = 2; call <= 8; ++call) {
    fs::remove_all(workspace_ / "volume");
    const ToolRun run =
        InVolume(Cat("strace -f -o trace -e inject=renameat2:signal=KILL:when=", call,
                     " $moepack assemble dist --group 0 -o out && exit 9\n"
                     "test ! -e out/config.json || test -e out/tokenizer.json\n"
                     "test ! -e out/model.safetensors.index.json || test -e out/tokenizer.json\n"
                     "test ! -e out/moepack_node.json || test -e out/config.json\n"));
    SKIP_WITHOUT_MOUNTS(run);
    EXPECT_EQ(run.status, 0) << call << "\n" << run.err;
  }
}

TEST_F(MountedOutputs, TheHelpOfEveryOutputThatIsADirectorySaysWhereItIsWritten) {
  for (const std::string command :
       {"build", "shard-experts", "assemble", "join", "overlay", "pull", "quantize", "refit"}) {
    const std::string help = workspace_.Moepack(command + " --help").out;
    std::string words;
    for (const std::string& word : Split(help, ' ')) words += word;
    std::erase(words, '\n');
    EXPECT_THAT(words, HasSubstr("DIR/.moepack.partialifDIRisempty,amountpointor")) << command;
  }
}

TEST_F(MountedOutputs, AFileThatIsMountedIsRefusedBeforeTheWork) {
  WriteAll(workspace_ / "volume.json", "");
  WriteAll(workspace_ / "plan.json", "");
  const ToolRun run =
      InNamespace("mount --bind volume.json plan.json",
                  "$moepack plan fixtures/tiny-moe --groups 2 --force -o plan.json || exit $?");
  SKIP_WITHOUT_MOUNTS(run);
  EXPECT_EQ(run.status, 2) << run.err;
  EXPECT_THAT(run.err, HasSubstr("plan.json is a mount point, which cannot be replaced"));
}

TEST_F(MountedOutputs, AVolumeThatIsReadOnlyIsNamedBeforeTheWork) {
  fs::create_directories(workspace_ / "out");
  const ToolRun run = InNamespace("mount -t tmpfs -o ro none out",
                                  "$moepack build fixtures/tiny-moe --groups 2 -o out || exit $?");
  SKIP_WITHOUT_MOUNTS(run);
  EXPECT_EQ(run.status, 5) << run.err;
  EXPECT_THAT(run.err, HasSubstr("Read-only file system"));
}

// A renamed directory of a lower layer would end in EXDEV.
TEST_F(MountedOutputs, ForceAndUpdateReplaceADirectoryOfALowerLayer) {
  Make("build fixtures/tiny-moe --groups 2 -o image/out");
  Make("build fixtures/tiny-moe --groups 2 --format gguf -o new");
  Make("pull image/out --group 1 -o image/pulled");
  fs::create_directories(workspace_ / "space");
  fs::create_directories(workspace_ / "root");
  const ToolRun run = InNamespace(
      "mount -t tmpfs none space && mkdir space/upper space/work && mount -t overlay overlay -o "
      "lowerdir=image,upperdir=space/upper,workdir=space/work,redirect_dir=off root",
      "$moepack build fixtures/tiny-moe --groups 3 --format gguf --force -o root/out\n"
      "$moepack verify root/out --strict\n"
      "$moepack pull new --group 1 --update -o root/pulled\n"
      "$moepack assemble root/pulled --group 1 -o node\n"
      "ls -A root root/out root/pulled");
  SKIP_WITHOUT_MOUNTS(run);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, Not(HasSubstr("partial")));
  EXPECT_THAT(run.out, Not(HasSubstr("replaced")));
}

// With little space on the disk.
TEST_F(MountedOutputs, WithoutSpaceTheMessageSaysWhatIsKept) {
  fs::create_directories(workspace_ / "small");
  const std::string build =
      "$moepack build fixtures/tiny-moe --groups 2 --keep-partial -o small/out";
  ToolRun run = InNamespace("mount -t tmpfs -o size=300k none small",
                            Cat(build, " || { ls -A small; exit 5; }"));
  SKIP_WITHOUT_MOUNTS(run);
  EXPECT_EQ(run.status, 5);
  EXPECT_THAT(run.err, HasSubstr("nothing was written"));
  EXPECT_THAT(run.out, Not(HasSubstr("out.partial")));
  run = InNamespace("mount -t tmpfs -o size=64M none small",
                    Cat("(ulimit -f 500; ", build,
                        ") 2>/dev/null || mount -o remount,size=1500K "
                        "small\n",
                        build, " || { ls -A small/out.partial; exit 5; }"));
  EXPECT_EQ(run.status, 5);
  EXPECT_THAT(run.err, HasSubstr("what an earlier run wrote is kept in "));
  EXPECT_THAT(run.err, HasSubstr("small/out.partial: the same command resumes from there"));
  EXPECT_THAT(run.err, Not(HasSubstr("nothing was written")));
  EXPECT_THAT(run.out, HasSubstr(".journal"));
}

}  // namespace
}  // namespace moepack::cli
