// Rules for what commands write: no output is an input, and no two outputs are one.
#include <gmock/gmock.h>

#include <set>
#include <sstream>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

namespace fs = std::filesystem;
using testing::AnyOf;
using testing::HasSubstr;

// A command that writes one file. `start` is its line without the output and without the option of
// the input that is tried.
struct Writer {
  std::string name, start;
  std::vector<std::string> outputs;  // its options that name a file to write
  struct Input {
    std::string option, more = "";  // what else the option needs
  };
  std::vector<Input> inputs;
  std::string extension = "json";
};

const std::vector<Writer>& Writers() {
  static const std::vector<Writer> writers = {
      {"profile",
       "profile fixtures/tiny-moe --text README.md",
       {"--output", "--trace", "--imatrix"},
       {{"--family"}, {"--config"}, {"--merge"}, {"--text"}, {"--tokens"}}},
      {"plan",
       "plan fixtures/tiny-moe --groups 2",
       {"--output"},
       {{"--family"},
        {"--config"},
        {"--overlay-file"},
        {"--statistics"},
        {"--pin", "--partition ranked --statistics fixtures/statistics/profile.json"},
        {"--imatrix", "--recipe Q4_K_M"},
        {"--tensor-type-file", "--recipe Q4_K_M"}}},
      {"statistics",
       "statistics convert fixtures/statistics/profile.json --model fixtures/tiny-moe",
       {"--output"},
       {{"--family", "--to hot-cache"},
        {"--config", "--to hot-cache"},
        {"--plan", "--to sglang-placement"}}},
      {"experiment",
       "experiment fixtures/tiny-moe --eligible 8",
       {"--output"},
       {{"--family", "--strategies contiguous --text README.md"},
        {"--config", "--strategies contiguous --text README.md"},
        {"--text", "--strategies contiguous"},
        {"--tokens", "--strategies contiguous"},
        {"--refit-text", "--strategies contiguous --text README.md"},
        {"--imatrix", "--strategies contiguous --text README.md --recipes Q4_K_M"},
        {"--calibrate", "--strategies contiguous --text README.md --recipes Q4_K_M"},
        {"--statistics", "--strategies ranked --text README.md"},
        {"--pin",
         "--strategies ranked --text README.md --statistics fixtures/statistics/profile.json"}}},
      {"quantize",
       "quantize fixtures/tiny-moe --recipe Q4_K_M",
       {"--output"},
       {{"--family"},
        {"--config"},
        {"--imatrix"},
        {"--tensor-type-file"},
        {"--calibrate"},
        {"--calibrate-tokens"},
        {"--held-out-text", "--calibrate README.md"}},
       "gguf"}};
  return writers;
}

class Outputs : public testing::Test {
 protected:
  // What is in the way must still be there.
  void ExpectRefused(const std::string& line, const std::string& file) {
    const std::string before = ReadFile(workspace_ / file);
    const ToolRun run = workspace_.Moepack(line + " --force");
    EXPECT_EQ(run.status, 2) << line << "\n" << run.err;
    EXPECT_THAT(run.err, AnyOf(HasSubstr("is also an input"), HasSubstr("is a file of the input"),
                               HasSubstr("is the input itself")))
        << line;
    EXPECT_EQ(ReadFile(workspace_ / file), before) << line;
  }
  // Options that take a file, as the help lists them.
  std::set<std::string> FileOptions(const std::string& command) const {
    std::istringstream help(workspace_.Moepack(command + " --help").out);
    std::set<std::string> options;
    for (std::string line; std::getline(help, line);) {
      if (!line.ends_with("FILE") && !line.ends_with(" OUT")) continue;
      const size_t begin = line.find("--"), end = line.rfind(' ');
      const bool one = begin < end && line.find(' ', begin) == end;
      if (one && line.find_first_not_of(' ') + 4 >= begin)
        options.insert(line.substr(begin, end - begin));
    }
    return options;
  }
  Workspace workspace_;
};

TEST_F(Outputs, NoFileThatAnOptionNamesIsReplaced) {
  for (const Writer& writer : Writers()) {
    const std::string in = "in." + writer.extension;
    WriteAll(workspace_ / in, "precious");
    for (const Writer::Input& input : writer.inputs) {
      for (const std::string& output : writer.outputs)
        ExpectRefused(writer.start + " " + input.more + " " + input.option + " " + in + " " +
                          output + " ./" + in,
                      in);
    }
  }
}

// A new option that names a file belongs in the table above, and in an AddNamedFiles.
TEST_F(Outputs, TheTableHasEveryOptionThatTakesAFile) {
  for (const Writer& writer : Writers()) {
    std::set<std::string> listed(writer.outputs.begin(), writer.outputs.end());
    for (const Writer::Input& input : writer.inputs) listed.insert(input.option);
    EXPECT_EQ(FileOptions(writer.name), listed) << writer.name;
  }
}

TEST_F(Outputs, NoFileOfTheModelIsReplaced) {
  const std::string source = "fixtures/tiny-moe";
  fs::copy(workspace_ / source, workspace_ / "model", fs::copy_options::recursive);
  for (const char* file : {"config.json", "model.safetensors.index.json"}) {
    const std::string name = std::string("model/") + file;
    for (Writer writer : Writers()) {
      if (writer.extension != "json") continue;
      writer.start.replace(writer.start.find(source), source.size(), "model");
      const Writer::Input& input = writer.inputs.back();
      const std::string spare = "fixtures/statistics/profile.json";
      for (const std::string& output : writer.outputs)
        ExpectRefused(writer.start + " " + input.more + " " + input.option + " " + spare + " " +
                          output + " " + name,
                      name);
    }
  }
}

// Beside a model that is one file there may be anything; only what is read with it is safe.
TEST_F(Outputs, NoFileThatIsReadWithAModelOfOneFileIsReplaced) {
  const ToolRun made = workspace_.Moepack(
      "quantize fixtures/tiny-moe --recipe BF16 --max-part-size 8MiB -o set.gguf");
  ASSERT_EQ(made.status, 0) << made.err;
  std::string first, second;
  for (const auto& entry : fs::directory_iterator(workspace_.path())) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("set-00001")) first = name;
    if (name.starts_with("set-00002")) second = name;
  }
  ASSERT_NE(first, "");
  ASSERT_NE(second, "");
  ExpectRefused("profile " + first + " --tokens 5,6 --imatrix " + second, second);
  WriteAll(workspace_ / "config.json", "{}");
  ExpectRefused("profile " + first + " --tokens 5,6 -o config.json", "config.json");
  WriteAll(workspace_ / "stats.json", "{}");
  const ToolRun run =
      workspace_.Moepack("profile " + first + " --tokens 5,6 -o stats.json --force");
  EXPECT_EQ(run.status, 0) << run.err;
}

TEST_F(Outputs, TwoSpellingsOfOneFileAreOneOutput) {
  fs::create_directory(workspace_ / "real");
  fs::create_directory_symlink("real", workspace_ / "link");
  const std::string absolute = (workspace_ / "real/q.json").string();
  for (const std::string& trace : {std::string("./real/q.json"), std::string("real/../real/q.json"),
                                   std::string("link/q.json"), absolute}) {
    const ToolRun run = workspace_.Moepack(
        "profile fixtures/tiny-moe --tokens 5,6 -o real/q.json --trace " + trace);
    EXPECT_EQ(run.status, 2) << trace;
    EXPECT_THAT(run.err, HasSubstr(trace + " is --output and --trace")) << trace;
    EXPECT_FALSE(fs::exists(workspace_ / "real/q.json")) << trace;
  }
}

TEST_F(Outputs, ADirectoryThatHoldsAnInputIsNotReplaced) {
  const std::string build = "build fixtures/tiny-moe --groups 2 --no-verify -o out ";
  ASSERT_EQ(workspace_.Moepack(build).status, 0);
  const std::string before = workspace_.Listing();
  for (const std::string& line :
       {build + "--config out/assets/config.json",
        build + "--recipe Q4_K_M --imatrix out/assets/config.json",
        std::string("build fixtures/tiny-moe --plan out --no-verify -o out"),
        std::string("shard-experts fixtures/tiny-moe --plan out/distribution.json -o out")}) {
    const ToolRun run = workspace_.Moepack(line + " --force");
    EXPECT_EQ(run.status, 2) << line << "\n" << run.err;
    EXPECT_THAT(run.err, HasSubstr(", which is read")) << line;
    EXPECT_EQ(workspace_.Listing(), before) << line;
  }
}

// Otherwise they would be refused when all the work is done.
TEST_F(Outputs, NothingIsWrittenIntoTheDistributionThatIsRead) {
  ASSERT_EQ(workspace_.Moepack("build fixtures/tiny-moe --groups 2 --no-verify -o out").status, 0);
  const std::string before = workspace_.Listing();
  for (const char* out : {"layout:sub:v1", "layout:sub/new/:v1"}) {
    const ToolRun run = workspace_.Moepack(
        std::string("--version; cd out && '" MOEPACK_BINARY "' publish . ") + out + " 2>/dev/null");
    EXPECT_EQ(run.status, 2) << out;
    EXPECT_EQ(workspace_.Listing(), before) << out;
  }
}

TEST_F(Outputs, TwoDirectoriesThatAreNotApartAreRefusedAtTheStart) {
  ASSERT_EQ(workspace_.Moepack("plan fixtures/tiny-moe --groups 2 -o plan.json").status, 0);
  const std::string before = workspace_.Listing();
  const std::string text = " --text fixtures/texts/manual.md --steps ridge -o out ";
  for (const std::string store : {"out", "./out", "out/store", "out.partial", "."}) {
    for (const std::string& line :
         {"refit fixtures/tiny-moe --plan plan.json" + text + "--store " + store,
          "build fixtures/tiny-moe --plan plan.json --refit" + text + "--refit-store " + store}) {
      const ToolRun run = workspace_.Moepack(line);
      EXPECT_EQ(run.status, 2) << line << "\n" << run.err;
      EXPECT_THAT(run.err, HasSubstr("expected two directories, none inside the other")) << line;
      EXPECT_EQ(workspace_.Listing(), before) << line;
    }
  }
  for (const std::string node : {"out", "out/node", "."}) {
    const ToolRun run =
        workspace_.Moepack("pull layout:none:v1 --group 0 -o out --assemble " + node);
    EXPECT_EQ(run.status, 2) << node;
    EXPECT_THAT(run.err, HasSubstr("--output and --assemble: expected two directories")) << node;
  }
}

}  // namespace
}  // namespace moepack::cli
