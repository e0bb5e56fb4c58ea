// The alignment of written files: 32 without a key, unless --alignment requests another one.
#include <gmock/gmock.h>

#include "fixtures/generator.h"
#include "fixtures/gguf_writer.h"
#include "libshard/format/gguf.h"
#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
namespace fs = std::filesystem;

// As moepack 0.1.0 wrote it.
const fs::path kOld = MOEPACK_SOURCE_DIR "/fixtures/distribution-0.1";

class GgufAlignment : public testing::Test {
 protected:
  void Run(const std::string& command) {
    const ToolRun run = workspace_.Moepack(command);
    ASSERT_EQ(run.status, 0) << command << "\n" << run.err;
  }
  void Build(const std::string& options) {
    Run("build fixtures/tiny-moe --groups 3 --quantize Q4_K_M --overlay-file "
        "fixtures/tiny-overlay.json " +
        options);
  }
  GgufHeader HeaderOf(const fs::path& path) {
    const std::string bytes = ReadFile(path);
    auto header = ParseGguf(path, std::as_bytes(std::span(bytes)), bytes.size());
    EXPECT_TRUE(header) << header.error().message;
    return header ? *std::move(header) : GgufHeader();
  }
  // Whether a file is laid out at `alignment`, up to its end, and states it as it should.
  void ExpectFile(const fs::path& path, uint64_t alignment) {
    const GgufHeader header = HeaderOf(path);
    uint64_t end = header.data_start;
    for (const TensorEntry& tensor : header.tensors) {
      EXPECT_EQ(tensor.offset, end) << path << " " << tensor.name;
      end = (tensor.offset + tensor.bytes + alignment - 1) / alignment * alignment;
    }
    EXPECT_EQ(fs::file_size(path), end) << path;
    const GgufValue* key = header.metadata.Find("general.alignment");
    if (alignment == 32) {
      EXPECT_EQ(key, nullptr) << path;
    } else {
      ASSERT_NE(key, nullptr) << path;
      EXPECT_EQ(*key, GgufValue::U32(static_cast<uint32_t>(alignment))) << path;
    }
  }
  // Counts the GGUF files below `name`, all of which must pass.
  size_t ExpectEach(const std::string& name, uint64_t alignment) {
    size_t found = 0;
    for (const auto& entry : fs::recursive_directory_iterator(workspace_ / name)) {
      if (entry.path().extension() != ".gguf") continue;
      ++found;
      ExpectFile(entry.path(), alignment);
    }
    return found;
  }
  void ExpectAll(const std::string& name, size_t count, uint64_t alignment) {
    EXPECT_EQ(ExpectEach(name, alignment), count) << name;
  }
  // A distribution, its nodes and the output of quantize, all with `words` on their command lines.
  void ExpectOfEveryCommand(const std::string& words, uint64_t alignment) {
    Build("-o built " + words);
    ExpectAll("built", 7, alignment);
    Run("shard-experts fixtures/tiny-moe --groups 3 --quantize Q8_0 --max-part-size 500k -o cut " +
        words);
    const size_t files = ExpectEach("cut", alignment);
    EXPECT_GT(files, 10u);
    Run("assemble built --group 1 -o split --link copy " + words);
    ExpectAll("split", 3, alignment);
    Run("assemble built --group 1 --layout single -o single " + words);
    ExpectAll("single", 1, alignment);
    Run("quantize fixtures/tiny-moe --recipe Q8_0 -o whole/model.gguf " + words);
    ExpectAll("whole", 1, alignment);
    Run("quantize fixtures/tiny-moe --recipe Q8_0 --max-part-size 1M -o set/model.gguf " + words);
    EXPECT_GT(ExpectEach("set", alignment), 2u);
    Run("quantize cut --recipe Q4_0 --allow-requantize -o other " + words);
    ExpectAll("other", files, alignment);
  }
  std::string RecordedCommand(const std::string& distribution) {
    return nlohmann::json::parse(
               ReadFile(workspace_ / distribution / "distribution.json"))["tool"]["command"]
        .dump();
  }
  void CopyOld() {
    fs::copy(kOld, workspace_ / "old", fs::copy_options::recursive);
    // The checkpoint that it was made from (fixtures/README.md).
    fixtures::Options options;
    options.layers = 1;
    ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", workspace_ / "source", options));
    WriteAll(workspace_ / "source/README.md", "---\nmodel_name: Old Tiny MoE\n---\n");
  }
  Workspace workspace_;
};

TEST_F(GgufAlignment, EveryWrittenGgufHasTheDefaultOf32AndNoKey) {
  ExpectOfEveryCommand("", 32);
  EXPECT_THAT(RecordedCommand("built"), Not(HasSubstr("alignment")));
}

TEST_F(GgufAlignment, EveryWritingCommandAcceptsAnotherAlignment) {
  ExpectOfEveryCommand("--alignment 4096", 4096);
  for (const char* distribution : {"built", "cut", "other"})
    EXPECT_THAT(RecordedCommand(distribution), HasSubstr(R"("--alignment","4096")"));
}

TEST_F(GgufAlignment, TheHelpNamesToolsThatDamageFilesWithAnotherAlignment) {
  for (const char* command : {"build", "shard-experts", "quantize", "assemble"}) {
    const ToolRun help = workspace_.Moepack(std::string("help ") + command);
    std::string text = help.out;
    text.erase(std::remove(text.begin(), text.end(), '\n'), text.end());
    EXPECT_THAT(text, HasSubstr("--alignment N")) << command;
    EXPECT_THAT(text, HasSubstr("llama-quantize")) << command;
    EXPECT_THAT(text, HasSubstr("llama-gguf-split --merge")) << command;
  }
}

TEST_F(GgufAlignment, AcceptsOnlyPowersOfTwoFrom32To2MiB) {
  for (const char* value :
       {"0", "1", "16", "31", "48", "4095", "4194304", "x", "-32", "4k", "''"}) {
    const ToolRun run = workspace_.Moepack(
        std::string("quantize fixtures/tiny-moe --recipe Q8_0 -o x.gguf --alignment ") + value);
    EXPECT_EQ(run.status, 2) << value;
    EXPECT_THAT(run.err, HasSubstr("expected a power of two from 32 to 2097152, found")) << value;
  }
  Run("quantize fixtures/tiny-moe --recipe Q8_0 -o x.gguf --alignment 2097152 --dry-run");
  Run("quantize fixtures/tiny-moe --recipe Q8_0 -o x.gguf --alignment 32");
  ExpectFile(workspace_ / "x.gguf", 32);
}

TEST_F(GgufAlignment, IsRefusedForSafetensors) {
  const ToolRun build =
      workspace_.Moepack("build fixtures/tiny-moe --groups 3 --alignment 4096 -o out");
  EXPECT_EQ(build.status, 2);
  EXPECT_THAT(build.err, HasSubstr("--alignment has no effect on safetensors bundles"));
  Run("build fixtures/tiny-moe --groups 3 -o out");
  const ToolRun node = workspace_.Moepack("assemble out --group 0 --alignment 4096 -o node");
  EXPECT_EQ(node.status, 2);
  EXPECT_THAT(node.err, HasSubstr("--alignment has no effect: "));
}

TEST_F(GgufAlignment, FilesOfEitherAlignmentVerifyAgainstTheSource) {
  Build("--prove --alignment 4096 -o paged");
  Run("verify paged --against fixtures/tiny-moe");
  Build("--prove -o plain");
  Run("verify plain --against fixtures/tiny-moe");
}

TEST_F(GgufAlignment, AllNodesShareOneTrunkWithEitherAlignment) {
  Build("--alignment 4096 -o paged");
  const std::string trunk = ReadFile(workspace_ / "paged/trunk/trunk.gguf");
  for (const char* group : {"0", "2"}) {
    const std::string node = std::string("node-") + group;
    Run(std::string("assemble paged --group ") + group + " -o " + node);
    EXPECT_TRUE(ReadFile(workspace_ / node / "node-00002-of-00003.gguf") == trunk);
    ExpectFile(workspace_ / node / "node-00001-of-00003.gguf", 32);
    ExpectFile(workspace_ / node / "node-00003-of-00003.gguf", 32);
  }
}

TEST_F(GgufAlignment, DoesNotCopyTheKeyOfASource) {
  fixtures::GgufFile source = fixtures::MiniGguf("qwen3moe", 2, 4);
  source.pairs.push_back(fixtures::GgufPairU32("general.alignment", 256));
  source.alignment = 256;
  WriteAll(workspace_ / "source.gguf", fixtures::GgufBytes(source));
  Run("quantize source.gguf --recipe F32 -o whole.gguf");
  ExpectFile(workspace_ / "whole.gguf", 32);
  Run("build source.gguf --groups 2 --prove -o cut");
  ExpectAll("cut", 5, 32);
  Run("assemble cut --group 0 -o node");
  ExpectAll("node", 3, 32);
}

TEST_F(GgufAlignment, AddsPartsWithTheAlignmentOfTheExistingOnes) {
  const std::string shard = "shard-experts fixtures/tiny-moe --groups 3 --quantize Q4_K_M -o out ";
  Run(shard + "--only trunk --alignment 4096");
  const ToolRun other = workspace_.Moepack(shard + "--only group:1");
  EXPECT_EQ(other.status, 2) << other.err;
  EXPECT_THAT(other.err, HasSubstr("out/head/head.gguf: alignment: expected 32, found 4096"));
  EXPECT_THAT(other.err, HasSubstr("use --alignment 4096"));
  Run(shard + "--only group:1 --alignment 4096");
  ExpectAll("out", 4, 4096);
  Run(shard + "--only trunk --only group:1 --force");  // nothing is kept
  ExpectAll("out", 4, 32);
  Run("verify out --against fixtures/tiny-moe");
}

TEST_F(GgufAlignment, ADistributionOfMoepack0VerifiesAndAssembles) {
  CopyOld();
  ExpectAll("old", 6, 4096);
  Run("verify old");
  Run("verify old --against source");
  Run("assemble old --group 1 --link copy -o split");
  ExpectFile(workspace_ / "split/node-00001-of-00003.gguf", 32);
  ExpectFile(workspace_ / "split/node-00002-of-00003.gguf", 4096);
  ExpectFile(workspace_ / "split/node-00003-of-00003.gguf", 32);
  Run("assemble old --group 1 --layout single -o single");
  ExpectAll("single", 1, 32);
  Run("quantize old --recipe Q4_0 --allow-requantize -o other");
  ExpectAll("other", 6, 32);
}

TEST_F(GgufAlignment, TheOptionGivesTheBytesOfMoepack0) {
  CopyOld();
  // Its groups were filled for the overlay, so the plan is the old one's.
  Run("plan source --groups 2 -o plan.json");
  auto plan = nlohmann::ordered_json::parse(ReadFile(workspace_ / "plan.json"));
  const auto old = nlohmann::ordered_json::parse(ReadFile(kOld / "distribution.json"));
  plan["partition"] = old["partition"];
  plan["overlays"] = old["overlays"];
  WriteAll(workspace_ / "plan.json", plan.dump());
  Run("shard-experts source --plan plan.json --quantize Q8_0 --alignment 4096 -o new");
  for (const char* file :
       {"head/head.gguf", "trunk/trunk.gguf", "routers/routers.gguf", "groups/000/experts.gguf",
        "groups/001/experts.gguf", "overlays/one/experts.gguf"}) {
    EXPECT_TRUE(ReadFile(workspace_ / "new" / file) == ReadFile(kOld / file)) << file;
  }
}

TEST_F(GgufAlignment, DoesNotResumeARunWithAnotherAlignment) {
  const std::string build = "build fixtures/tiny-moe --groups 3 --quantize Q4_K_M -o out ";
  // The second run finds the finished parts of the first, as if that had been killed.
  Run(build + "--alignment 4096");
  fs::create_directories(workspace_ / "out.partial");
  fs::rename(workspace_ / "out", workspace_ / "out.partial/files");
  WriteAll(workspace_ / "out.partial/.lock", "");
  Run(build);
  ExpectAll("out", 6, 32);
  Run("verify out --against fixtures/tiny-moe");
}

}  // namespace
}  // namespace moepack::cli
