// Writing into, and over, existing directories: hostile ones, shared ones, and those that a killed
// run left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixtures/memory_temp.h"
#include "fixtures/safetensors_writer.h"
#include "fixtures/system_calls.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/files/local_tree.h"
#include "manifest/verify/verify.h"
#include "manifest/write/bundle.h"
#include "tests/manifest/document/tiny_distribution.h"

namespace moepack::manifest {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kGroup = "groups/001/experts.safetensors";

class ExistingOutput : public testing::Test {
 protected:
  ExistingOutput() {
    fs::create_directories(dir_ / "outside/001");
    fixtures::WriteFile(dir_ / "outside/victim", "precious");
  }
  static WriteOptions Forced(const std::vector<std::string>& parts = {}) {
    WriteOptions options = tiny::Only(parts);
    options.force = true;
    return options;
  }
  void Write(const std::string& name, const WriteOptions& options = tiny::Only()) {
    const auto report = tiny::Write(dir_ / name, options);
    ASSERT_TRUE(report) << report.error().message;
  }
  // The error of a run that must leave everything unchanged.
  Error Refusal(const std::string& name, const WriteOptions& options) {
    const auto before = tiny::Tree(dir_.path());
    const auto report = tiny::Write(dir_ / name, options);
    EXPECT_FALSE(report);
    EXPECT_EQ(tiny::Tree(dir_.path()), before);
    return report ? Error{Code::kIo, ""} : report.error();
  }
  // Replaces `from` by `to` in the manifest of `name`.
  void Rewrite(const std::string& name, const std::string& from, const std::string& to) {
    const fs::path path = dir_ / name / kManifestFile;
    std::string text = fixtures::ReadFile(path);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos);
    fixtures::WriteFile(path, text.replace(at, from.size(), to));
  }
  bool IsWhole(const std::string& name) {
    const auto report = VerifyDistribution((dir_ / name).string(), {});
    return report && std::none_of(report->findings.begin(), report->findings.end(),
                                  [](const Finding& finding) {
                                    return finding.severity == Severity::kError ||
                                           finding.rule == "no-stray-files";
                                  });
  }
  const fixtures::MemoryTemp in_memory_;
  fixtures::TempDir dir_;
};

TEST_F(ExistingOutput, OnlyKeepsAReadmeThatSomebodyEdited) {
  Write("d", tiny::Only({"trunk", "group:0"}));
  const fs::path readme = dir_ / "d/README.md";
  const std::string before = fixtures::ReadFile(readme);
  Write("d", tiny::Only({"group:1"}));
  EXPECT_NE(fixtures::ReadFile(readme), before) << "moepack's own text follows the manifest";
  fixtures::WriteFile(readme, "# Ours\n");
  const auto report = tiny::Write(dir_ / "d", tiny::Only({"group:2"}));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(fixtures::ReadFile(readme), "# Ours\n");
  EXPECT_THAT(report->warnings,
              ElementsAre(HasSubstr("d/README.md: it was edited and stays as it is")));
}

// shard-experts --only group:1 --force -o d, where d/distribution.json names
// evil/victim.safetensors.
TEST_F(ExistingOutput, OnlyDoesNotRemoveThroughALink) {
  Write("d");
  Rewrite("d", kGroup, "evil/victim.safetensors");
  fixtures::WriteFile(dir_ / "outside/victim.safetensors", "precious");
  fs::create_directory_symlink(dir_ / "outside", dir_ / "d/evil");
  const Error error = Refusal("d", Forced({"group:1"}));
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("d/evil: expected a directory, found a link"));
  EXPECT_EQ(fixtures::ReadFile(dir_ / "outside/victim.safetensors"), "precious");
}

TEST_F(ExistingOutput, OnlyDoesNotWriteThroughALink) {
  Write("d", tiny::Only({"trunk"}));
  fs::create_directory_symlink(dir_ / "outside", dir_ / "d/groups");
  const Error error = Refusal("d", tiny::Only({"group:1"}));
  EXPECT_THAT(error.message, HasSubstr("d/groups: expected a directory, found a link"));
  EXPECT_TRUE(fs::is_empty(dir_ / "outside/001"));
}

// The same link, created at every moment in turn.
TEST_F(ExistingOutput, DoesNotFollowALinkSwappedInDuringTheRun) {
  if (!fixtures::CanWatchSystemCalls()) GTEST_SKIP() << fixtures::kCannotWatch;
  Write("whole", tiny::Only({"trunk", "group:1", "assets"}));
  for (int at = 0;; ++at) {
    fs::remove_all(dir_ / "d");
    fs::remove_all(dir_ / "d.partial");
    fs::copy(dir_ / "whole", dir_ / "d", fs::copy_options::recursive);
    const int status = fixtures::RunInChild([&] {
      int calls = 0;
      const auto swap = [&](const std::string& call) {
        const bool counts = call.find("d/") != call.npos && !call.starts_with("write");
        if (!counts || calls++ != at) return fixtures::kLetItHappen;
        std::error_code ignored;
        fs::rename(dir_ / "d/groups", dir_ / "d/moved", ignored);
        fs::create_directory_symlink(dir_ / "outside", dir_ / "d/groups", ignored);
        return fixtures::kLetItHappen;
      };
      if (!fixtures::WatchSystemCalls(dir_.path(), swap)) return 2;
      (void)tiny::Write(dir_ / "d", Forced({"group:1"})).has_value();
      return calls > at ? 0 : 1;
    });
    EXPECT_THAT(tiny::Names(dir_ / "outside"), ElementsAre("victim")) << at;
    if (status == 1) break;
    ASSERT_EQ(status, 0) << at;
  }
}

TEST_F(ExistingOutput, ForceKeepsADirectoryThatOnlyHoldsAFileOfThatName) {
  fs::create_directories(dir_ / "docs");
  fixtures::WriteFile(dir_ / "docs/thesis.tex", "years of work");
  fixtures::WriteFile(dir_ / "docs/distribution.json", "{}");
  const Error error = Refusal("docs", Forced());
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr(" holds a distribution.json that cannot be read: "));
  EXPECT_THAT(error.hint, HasSubstr("--force replaces only what moepack wrote"));
}

TEST_F(ExistingOutput, ForceKeepsADistributionThatHoldsSomethingElse) {
  Write("d");
  fixtures::WriteFile(dir_ / "d/groups/000/notes.txt", "mine");
  EXPECT_THAT(Refusal("d", Forced()).message, HasSubstr("holds \"groups/000/notes.txt\""));
  fs::remove(dir_ / "d/groups/000/notes.txt");
  fixtures::WriteFile(dir_ / "d/README.md.tmp-123", "what a killed run left");
  Write("d", Forced());
  EXPECT_TRUE(IsWhole("d"));
}

// shard-experts --only was killed after its files were moved in but before they were listed: build
// --force refuses them as foreign, and names the command that fixes it.
TEST_F(ExistingOutput, RefusesAnUnlistedFileOfAKilledRunWithTheCommandThatListsIt) {
  Write("whole");
  struct Case {
    const char *only, *file;
  };
  for (const Case& one : {Case{"group:1", kGroup}, Case{"trunk", "trunk/trunk.safetensors"},
                          Case{"overlay", "overlays/generalists-1/experts.safetensors"},
                          Case{"assets", "assets/config.json"}}) {
    ASSERT_TRUE(fs::exists(dir_ / "whole" / one.file)) << one.file;
    fs::remove_all(dir_ / "d");
    Write("d", tiny::Only({"group:0"}));
    fs::create_directories((dir_ / "d" / one.file).parent_path());
    fs::copy(dir_ / "whole" / one.file, dir_ / "d" / one.file);
    const Error error = Refusal("d", Forced());
    EXPECT_THAT(error.message, HasSubstr(std::string("holds \"") + one.file));
    EXPECT_THAT(error.hint, HasSubstr(std::string("if shard-experts --only ") + one.only +
                                      " was killed, it left that file: run it again"));
    Write("d", tiny::Only({one.only}));
    EXPECT_TRUE(IsWhole("d")) << one.only;
    Write("d", Forced());
  }
  fixtures::WriteFile(dir_ / "d/groups/000/notes.txt", "mine");
  EXPECT_THAT(Refusal("d", Forced()).hint, testing::StartsWith("--force replaces only"));
}

// It was fine when the run started.
TEST_F(ExistingOutput, KeepsFilesThatAppearDuringTheRun) {
  Write("d");
  WriteOptions options = Forced();
  options.pack.progress = [&](uint64_t, uint64_t) {
    fixtures::WriteFile(dir_ / "d/notes.txt", "mine");
  };
  const auto report = tiny::Write(dir_ / "d", options);
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("holds \"notes.txt\""));
  EXPECT_THAT(report.error().hint, HasSubstr("what was written is kept in "));
  EXPECT_EQ(fixtures::ReadFile(dir_ / "d/notes.txt"), "mine");
  fs::remove(dir_ / "d/notes.txt");
  Write("d", Forced());
  EXPECT_FALSE(fs::exists(dir_ / "d.partial"));
}

TEST_F(ExistingOutput, ReplacingFollowsNoLinks) {
  Write("d");
  fs::remove(dir_ / "d" / kGroup);
  fs::create_symlink(dir_ / "outside/victim", dir_ / "d" / kGroup);
  Write("d", Forced());
  EXPECT_EQ(fixtures::ReadFile(dir_ / "outside/victim"), "precious");
  EXPECT_TRUE(IsWhole("d"));
}

// The manifest is read under the lock.
TEST_F(ExistingOutput, RefusesToAddPartsWhileAnotherRunDoes) {
  Write("d", tiny::Only({"trunk"}));
  const auto other = StagingDirectory::Open(dir_ / "d");
  ASSERT_TRUE(other);
  const auto refused = tiny::Write(dir_ / "d", tiny::Only({"group:1"}));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("another process is writing it"));
  fs::create_directory_symlink(dir_ / "d", dir_ / "link");
  EXPECT_FALSE(tiny::Write(dir_ / "link", tiny::Only({"group:1"})))
      << "the same directory under another name";
}

// The lost update of concurrent runs: everything that succeeded is in the manifest.
TEST_F(ExistingOutput, KeepsPartsThatAConcurrentRunAdded) {
  for (int round = 0; round < 10; ++round) {
    const std::string name = "d" + std::to_string(round);
    Write(name, tiny::Only({"trunk"}));
    const auto add = [&](const char* part) {
      return tiny::Write(dir_ / name, tiny::Only({part})).has_value();
    };
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(add("group:0") ? 0 : 5);
    const bool mine = add("group:1");
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    const auto manifest = ReadManifest((dir_ / name).string());
    ASSERT_TRUE(manifest);
    EXPECT_EQ(manifest->BytesOf(Role::kGroup, 0) > 0, status == 0) << round;
    EXPECT_EQ(manifest->BytesOf(Role::kGroup, 1) > 0, mine) << round;
    EXPECT_TRUE(mine || status == 0);
    fs::remove_all(dir_ / name);
  }
}

TEST_F(ExistingOutput, AddingPartsSurvivesBeingKilledBetweenSystemCalls) {
  if (!fixtures::CanWatchSystemCalls()) GTEST_SKIP() << fixtures::kCannotWatch;
  Write("before", tiny::Only({"group:0"}));
  Write("whole", tiny::Only({"group:0", "assets"}));
  const auto expected = tiny::Tree(dir_ / "whole");
  for (int calls = 0; calls >= 0; calls += 3) {
    const fixtures::TempDir dir;
    fs::copy(dir_ / "before", dir / "d", fs::copy_options::recursive);
    const auto add = [&] { return tiny::Write(dir / "d", tiny::Only({"assets"})).has_value(); };
    const bool killed = fixtures::IsKilledAtCall(dir.path(), calls, [&] { return add() ? 0 : 1; });
    const auto manifest = ReadManifest((dir / "d").string());
    ASSERT_TRUE(manifest) << calls;
    for (const AssetRecord& asset : manifest->assets) {
      EXPECT_TRUE(fs::exists(dir / "d" / asset.file))
          << calls << ": the manifest names a file that is missing";
    }
    if (!killed || !manifest->assets.empty()) {
      EXPECT_TRUE(tiny::Write(dir / "d", Forced({"assets"})));
    } else {
      EXPECT_TRUE(add()) << calls;
    }
    for (const auto& name : tiny::Names(dir / "d")) {
      if (name.find(".tmp-") != name.npos) fs::remove(dir / "d" / name);
    }
    EXPECT_TRUE(tiny::Tree(dir.path() / "d") == expected) << calls;
    EXPECT_FALSE(fs::exists(dir / "d.partial")) << calls;
    if (!killed) break;
  }
}

TEST_F(ExistingOutput, WritesTheManifestAfterFlushingTheDirectoriesOfItsFiles) {
  if (!fixtures::CanWatchSystemCalls()) GTEST_SKIP() << fixtures::kCannotWatch;
  Write("d", tiny::Only({"trunk"}));
  const int status = fixtures::RunInChild([&] {
    std::vector<std::string> calls;
    const auto note = [&](const std::string& call) {
      if (call.find("d.partial/") == call.npos || call.starts_with("rename")) calls.push_back(call);
      return fixtures::kLetItHappen;
    };
    if (!fixtures::WatchSystemCalls(dir_.path(), note)) return 2;
    if (!tiny::Write(dir_ / "d", tiny::Only({"group:1"}))) return 3;
    const auto place = [&](const std::string& end) {
      const auto found = std::find_if(calls.begin(), calls.end(),
                                      [&](const std::string& call) { return call.ends_with(end); });
      return found - calls.begin();
    };
    const auto manifest = place("-> d/distribution.json");
    const bool ordered =
        place("mkdir d/groups") < place("fsync d") &&
        place("mkdir d/groups/001") < place("fsync d/groups") &&
        place("-> d/groups/001/experts.safetensors") < place("fsync d/groups/001") &&
        place("fsync d/groups/001") < manifest && place("fsync d/groups") < manifest;
    return ordered && calls.size() > static_cast<size_t>(manifest) + 1 &&
                   calls[static_cast<size_t>(manifest) + 1] == "fsync d"
               ? 0
               : 1;
  });
  EXPECT_EQ(status, 0);
}

// The asset would contradict the version of the model.
TEST_F(ExistingOutput, AConfigOrTokenizerThatIsRewrittenDuringTheRunIsAnError) {
  for (const char* name : {"config.json", "tokenizer.json", "generation_config.json"}) {
    const fixtures::TempDir source;
    fs::copy(tiny::kSource, source / "tiny");
    WriteOptions options = tiny::Only();
    options.pack.progress = [&](uint64_t, uint64_t) {
      const fs::path file = source / "tiny" / name;
      fixtures::WriteFile(file, fixtures::ReadFile(file) + "\n");
    };
    const auto report = tiny::Write(dir_ / "d", options, source / "tiny");
    ASSERT_FALSE(report) << name;
    EXPECT_EQ(report.error().code, Code::kCorrupt);
    EXPECT_FALSE(fs::exists(dir_ / "d"));
  }
}

// It was read with the model, before writing starts.
TEST_F(ExistingOutput, AFileChangedSinceTheModelWasOpenedIsAnError) {
  const fixtures::TempDir source;
  fs::copy(tiny::kSource, source / "tiny");
  WriteOptions options = tiny::Only();
  options.side_files = SideFiles::Note(std::make_shared<LocalTree>(source / "tiny"));
  const MoeModel model = tiny::Model(source / "tiny");
  const fs::path config = source / "tiny/config.json";
  fixtures::WriteFile(config, fixtures::ReadFile(config) + "\n");
  const auto report = WriteDistribution(model, tiny::Plan(model), (dir_ / "d").string(), options);
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message,
              HasSubstr("config.json: the file was changed while it was read"));
}

}  // namespace
}  // namespace moepack::manifest
