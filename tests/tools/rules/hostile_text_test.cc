// Text from files, and paths that users give, reaches the terminal only through moepack::Shown:
// every command on inputs with hostile names, in every text field.
#include <gmock/gmock.h>

#include <sstream>

#include "libshard/base/text/json.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/utf8.h"
#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

// Escape sequences, C1 controls, marks that change the direction of text, and its own lines and
// workflow commands. No single quote, so that it can be a word of a command line, and no slash.
const char* const kHostile =
    "x\x1b]0;title\x07\x1b[2J\u009b31m\u202e\u2066\u200f\u061c\u2028\x7f\r\n"
    "ok       forged\n::error::forged\n##[error]forged\x08";

std::string InShell(const std::string& word) { return "'" + word + "'"; }

// Nothing in it affects a terminal, and no part of `text` begins a line or a command.
void ExpectHarmless(const std::string& text, const std::string& what) {
  EXPECT_EQ(ShownLines(text), text) << what;
  EXPECT_THAT(text, Not(HasSubstr("##["))) << what;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_FALSE(line.starts_with("ok       forged")) << what;
    const size_t start = line.find_first_not_of(" \t");
    EXPECT_FALSE(start != line.npos && line.compare(start, 9, "::error::") == 0 &&
                 line.ends_with("forged"))
        << what << ": " << line;
  }
}

class HostileText : public testing::Test {
 protected:
  // Runs and checks both streams; `arguments` may fail or not, but must not end in a signal.
  ToolRun Run(const std::string& arguments) {
    const ToolRun run = workspace_.Moepack(arguments);
    EXPECT_GE(run.status, 0) << arguments;
    EXPECT_LT(run.status, 128) << arguments;
    ExpectHarmless(run.out, "stdout of " + arguments);
    ExpectHarmless(run.err, "stderr of " + arguments);
    return run;
  }
  ToolRun RunWell(const std::string& arguments) {
    const ToolRun run = Run(arguments);
    EXPECT_EQ(run.status, 0) << arguments << "\n" << run.err;
    return run;
  }
  void ReplaceManifest(const std::string& directory, const json& manifest) {
    WriteAll(workspace_ / directory / "distribution.json", manifest.dump(2));
  }
  json Manifest(const std::string& directory) {
    return json::parse(ReadFile(workspace_ / directory / "distribution.json"));
  }

  Workspace workspace_;
};

TEST_F(HostileText, IsEscapedInPathsOfEveryCommand) {
  const std::string source = kHostile, out = std::string("o") + kHostile;
  fs::rename(workspace_ / "fixtures/tiny-moe", workspace_ / source);
  const std::string src = InShell(source), dist = InShell(out), node = InShell("n" + source);
  for (const char* options : {"", " --summary", " --check", " --json"})
    RunWell("list-tensors " + src + options);
  RunWell("plan " + src + " --groups 3 -o " + InShell(source + ".json"));
  Run("plan " + src + " --groups 3 -o " + InShell(source + ".json"));
  RunWell("shard-experts " + src + " --groups 3 --dry-run -o " + dist);
  RunWell("build " + src + " --groups 3 --recipe Q4_K_M -o " + dist);
  Run("build " + src + " --groups 3 -o " + dist);
  RunWell("quantize " + src + " --recipe Q8_0 -o " + InShell("q" + source + ".gguf"));
  for (const char* format : {"text", "json", "github", "junit"})
    RunWell("verify " + dist + " --against " + src + " --format " + format);
  RunWell("diff " + dist + " " + dist);
  RunWell("assemble " + dist + " --group 0 -o " + node);
  Run("assemble " + dist + " --group 0 -o " + node);
  RunWell("run " + node + " --tokens 5,6 -n 1");
  RunWell("check " + dist + " --tokens 5,6 --group 0");
  const std::string text = InShell("t" + source + ".txt");
  WriteAll(workspace_ / ("t" + source + ".txt"), "some words");
  Run("profile " + src + " --text " + text + " --dry-run");
  Run("eval " + dist + " --generate 0 --text " + text);
}

TEST_F(HostileText, IsEscapedInMissingPaths) {
  const std::string gone = InShell(std::string("gone") + kHostile);
  for (const char* command :
       {"list-tensors @",
        "plan @ --groups 2",
        "plan fixtures/tiny-moe --groups 2 --overlay-file @",
        "plan fixtures/tiny-moe --groups 2 --partition explicit:@",
        "plan fixtures/tiny-moe --groups 2 --partition @",
        "plan fixtures/tiny-moe --groups @",
        "plan fixtures/tiny-moe --@",
        "plan fixtures/tiny-moe --groups 2 --config @",
        "plan fixtures/tiny-moe --groups 2 --family @",
        "plan fixtures/tiny-moe --groups 2 -o @/@",
        "shard-experts fixtures/tiny-moe --plan @ -o d",
        "shard-experts fixtures/tiny-moe --groups 2 --only @ -o d",
        "quantize fixtures/tiny-moe --recipe @ -o a.gguf",
        "quantize fixtures/tiny-moe --recipe Q8_0 -o @",
        "quantize fixtures/tiny-moe --tensor-type @=q8_0 -o a.gguf",
        "quantize fixtures/tiny-moe --recipe Q8_0 --imatrix @ -o a.gguf",
        "quantize fixtures/tiny-moe --recipe Q8_0 --pre @ -o a.gguf",
        "build fixtures/tiny-moe --groups 2 --recipe Q8_0 --tensor-type-file @ -o d",
        "verify @",
        "verify . --format @",
        "diff @ @",
        "assemble @ --group 0 -o d",
        "assemble . --name @",
        "run @ --tokens 1",
        "run fixtures/tiny-moe --tokens @",
        "run fixtures/tiny-moe --tokens 1 --executor @",
        "check @",
        "check @ --tokens @",
        "profile fixtures/tiny-moe --text @",
        "profile fixtures/tiny-moe --text docs/cli.md -o @",
        "eval @ --text docs/cli.md",
        "eval fixtures/tiny-moe --gate @ --text docs/cli.md",
        "@",
        "help @",
        "list-tensors fixtures/tiny-moe --regex '('@"}) {
    std::string arguments;
    for (const char* c = command; *c != '\0'; ++c)
      arguments += *c == '@' ? gone : std::string(1, *c);
    const ToolRun run = Run(arguments);
    EXPECT_NE(run.status, 0) << arguments;
    EXPECT_THAT(run.err, HasSubstr("error: ")) << arguments;
  }
}

TEST_F(HostileText, IsEscapedInTheConfigAndTheFamilyOfACheckpoint) {
  const fs::path config = workspace_ / "fixtures/tiny-moe/config.json";
  const json sound = json::parse(ReadFile(config));
  for (const auto& [key, value] : sound.items()) {
    json changed = sound;
    changed[key] = value.is_array() ? json::array({kHostile}) : json(kHostile);
    WriteAll(config, changed.dump());
    if (Run("list-tensors fixtures/tiny-moe --summary").status != 0) continue;
    Run("plan fixtures/tiny-moe --groups 3 -o -");
    Run("build fixtures/tiny-moe --groups 3 --no-verify --force -o out");
  }
}

TEST_F(HostileText, IsEscapedInSummariesTablesAndChecksOfAConfig) {
  const fs::path config = workspace_ / "fixtures/tiny-moe/config.json";
  const json sound = json::parse(ReadFile(config));
  for (const auto& [key, value] : sound.items()) {
    SCOPED_TRACE(key);
    json changed = sound;
    changed[key] = value.is_array() ? json::array({kHostile}) : json(kHostile);
    WriteAll(config, changed.dump());
    WriteAll(workspace_ / "alone/config.json", changed.dump());
    Run("list-tensors alone --summary --groups 2 --recipe Q8_0");
    Run("list-tensors fixtures/tiny-moe --summary --groups 2,3");
    Run("list-tensors fixtures/tiny-moe --check");
    Run("quantize fixtures/tiny-moe --recipe Q4_K_M --dry-run --tensors -o a.gguf");
    Run("build fixtures/tiny-moe --groups 2 --recipe Q4_K_M --dry-run --tensors -o out");
  }
}

TEST_F(HostileText, IsEscapedInANoteOfASummary) {
  fs::rename(workspace_ / "fixtures/tiny-moe", workspace_ / kHostile);
  fs::remove(workspace_ / kHostile / "tokenizer.json");
  const ToolRun run = RunWell("list-tensors " + InShell(kHostile) + " --summary");
  EXPECT_THAT(run.out, HasSubstr("note: no sizes by recipe: x\\x1b"));
}

// Padded to a number of bytes, so that it can replace another text in a file.
std::string HostileOfLength(size_t length) {
  std::string text = "\x1b[2J\n::error::forged\u202e\u009b31m\r##[error]";
  text.resize(std::max(length, text.size()), 'x');
  text.resize(length);
  while (!IsUtf8(text)) {
    text.pop_back();
    text.insert(0, "x");
  }
  return text;
}

TEST_F(HostileText, IsEscapedInTheTextsOfAGguf) {
  RunWell("quantize fixtures/tiny-moe --recipe Q8_0 -o sound.gguf");
  const std::string sound = ReadFile(workspace_ / "sound.gguf");
  for (const std::string text :
       {"qwen3moe", "general.architecture", "general.name", "Qwen3 Moe", "tokenizer.ggml.model",
        "tokenizer.ggml.pre", "qwen2", "gpt2", "qwen3moe.expert_count", "token_embd.weight",
        "blk.0.ffn_gate_inp.weight", "blk.0.ffn_down_exps.weight", "blk.1.attn_q.weight"}) {
    SCOPED_TRACE(text);
    std::string changed = sound;
    const std::string hostile = HostileOfLength(text.size());
    size_t found = 0;
    for (size_t at = changed.find(text); at != changed.npos; at = changed.find(text, at + 1)) {
      if (at > 8 &&
          changed.compare(at - 8, 1, std::string(1, static_cast<char>(text.size()))) == 0) {
        changed.replace(at, text.size(), hostile);
        ++found;
      }
    }
    EXPECT_GT(found, 0u);
    WriteAll(workspace_ / "a.gguf", changed);
    for (const char* options :
         {"", " --summary", " --summary --recipe Q4_0", " --check", " --json"})
      Run(std::string("list-tensors a.gguf") + options);
    Run("plan a.gguf --groups 2 --force -o plan.json");
    Run("quantize a.gguf --recipe Q4_0 --allow-requantize --dry-run --tensors -o b.gguf");
    Run("build a.gguf --groups 2 --dry-run --tensors -o out");
    Run("run a.gguf --prompt The -n 2");
    Run("profile a.gguf --tokens 5,6");
    if (Run("build a.gguf --groups 2 --force -o out").status != 0) continue;
    Run("check out --tokens 5,6 --group 0 --format github");
    Run("eval out --tokens 5,6,7 --generate 0 --gate 'capture>=0.999' --format github");
    Run("diff out out");
  }
}

TEST_F(HostileText, IsEscapedInEveryReportForGithub) {
  const std::string name = std::string("o") + kHostile, out = InShell(name);
  RunWell("build fixtures/tiny-moe --groups 2 --no-verify -o " + out);
  WriteAll(workspace_ / "text.txt", "some words");
  const std::string eval = "eval " + out + " --generate 0 --gate 'capture>=0.999' --text text.txt";
  for (const char* format : {"text", "json", "github", "junit"}) {
    const std::string report = std::string(" --format ") + format;
    RunWell("check " + out + " --tokens 5,6 --group 0" + report);
    EXPECT_EQ(Run(eval + report).status, 6);
  }
  WriteAll(workspace_ / name / kHostile, "stray");
  WriteAll(workspace_ / name / "trunk/trunk.safetensors", "damaged");
  for (const char* format : {"text", "json", "github", "junit"})
    EXPECT_EQ(Run("verify " + out + " --format " + format).status, 6);
}

TEST_F(HostileText, IsEscapedInNamesAndTypesOfTensors) {
  const std::string name = json(kHostile).dump();
  const auto header = [&](const std::string& text) {
    std::string bytes(8, '\0');
    for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(text.size() >> (8 * i) & 255);
    return bytes + text + std::string(4, '\0');
  };
  for (const std::string& text :
       {"{" + name + ": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}}",
        "{\"a\": {\"dtype\": " + name + ", \"shape\": [1], \"data_offsets\": [0, 4]}}",
        "{\"a\": {" + name + ": \"F32\"}}", "{\"__metadata__\": {" + name + ": 1}}",
        "{\"a\": " + name + "}", "{" + name}) {
    WriteAll(workspace_ / "a.safetensors", header(text));
    EXPECT_NE(Run("list-tensors a.safetensors").status, 0) << text;
  }
}

// Paths to every text of a document; in lists, the first two members are enough.
std::vector<json::json_pointer> Texts(const json& document) {
  std::vector<json::json_pointer> texts;
  const json flat = document.flatten();
  for (const auto& [path, value] : flat.items()) {
    bool first = true;
    for (size_t at = path.find('/'); at != path.npos; at = path.find('/', at + 1)) {
      const std::string part = path.substr(at + 1, path.find('/', at + 1) - at - 1);
      first = first && (part.find_first_not_of("0123456789") != part.npos || part < "2");
    }
    if (value.is_string() && first) texts.emplace_back(path);
  }
  return texts;
}

TEST_F(HostileText, IsEscapedInEveryTextOfTheManifest) {
  RunWell(
      "build fixtures/tiny-moe --groups 2 --recipe Q8_0 --no-verify --model-id a/b "
      "--overlay-file fixtures/tiny-overlay.json -o out");
  RunWell("build fixtures/tiny-moe --groups 2 --no-verify -o other");
  const json sound = Manifest("out");
  const auto texts = Texts(sound);
  EXPECT_GT(texts.size(), 30u);
  for (const json::json_pointer& text : texts) {
    SCOPED_TRACE(text.to_string());
    json changed = sound;
    changed[text] = kHostile;
    ReplaceManifest("out", changed);
    Run("diff other out");
    Run("verify out --no-digests");
    Run("verify out --no-digests --format github");
    Run("assemble out --group 0 --dry-run -o node");
  }
}

TEST_F(HostileText, IsShownOnOneLineByDiff) {
  RunWell("build fixtures/tiny-moe --groups 2 --no-verify -o out");
  RunWell("build fixtures/tiny-moe --groups 2 --no-verify -o other");
  json changed = Manifest("out");
  for (const char* field : {"id", "family", "architecture", "gating"})
    changed["model"][field] = kHostile;
  ReplaceManifest("out", changed);
  const ToolRun run = RunWell("diff other out --tensors");
  EXPECT_THAT(run.out, HasSubstr("\\x0aok       forged"));
  const json report = json::parse(RunWell("diff other out --json").out);
  EXPECT_EQ(report["changes"][0]["after"], kHostile) << "JSON has the text unchanged";
}

TEST_F(HostileText, IsShownAsTextInTheReadmeOfADistribution) {
  RunWell("build fixtures/tiny-moe --groups 2 --no-verify -o out --model-id " +
          InShell("<script>\x1b[2J](http:x)\n# forged `code`"));
  const std::string readme = ReadFile(workspace_ / "out/README.md");
  EXPECT_EQ(ShownLines(readme), readme);
  EXPECT_THAT(readme, Not(HasSubstr("<script>")));
  EXPECT_THAT(readme, Not(HasSubstr("\n# forged")));
  EXPECT_THAT(readme, HasSubstr("\n---\n# \\<script\\>\\\\x1b\\[2J\\](http\\:x)"));
}

TEST_F(HostileText, IsEscapedInEveryTextOfAStatisticsFile) {
  WriteAll(workspace_ / "a.txt", "one text");
  WriteAll(workspace_ / "b.txt", "another text");
  RunWell("profile fixtures/tiny-moe --text a.txt --bucket chat -o stats.json");
  const json sound = json::parse(ReadFile(workspace_ / "stats.json"));
  for (const json::json_pointer& text : Texts(sound)) {
    SCOPED_TRACE(text.to_string());
    json changed = sound;
    changed[text] = kHostile;
    WriteAll(workspace_ / "hostile.json", changed.dump());
    Run("profile fixtures/tiny-moe --text b.txt --merge hostile.json");
    Run("profile fixtures/tiny-moe --text b.txt --merge hostile.json -o -");
  }
}

TEST_F(HostileText, IsEscapedInTheVocabularyThatRunPrints) {
  const fs::path path = workspace_ / "fixtures/tiny-moe/tokenizer.json";
  json tokenizer = json::parse(ReadFile(path));
  json vocabulary = json::object();
  // Byte-level BPE spells ESC as U+011B; every piece longer than a byte now starts with one.
  for (const auto& [piece, id] : tokenizer["model"]["vocab"].items())
    vocabulary[piece.size() > 2 ? "\u011b[31m" + piece : piece] = id;
  tokenizer["model"]["vocab"] = vocabulary;
  tokenizer["model"]["merges"] = json::array();
  WriteAll(path, tokenizer.dump());
  const ToolRun run = RunWell("run fixtures/tiny-moe --prompt 'The license' -n 16");
  EXPECT_THAT(run.out, HasSubstr("\\x1b[31m"));
  const json report = json::parse(RunWell("run fixtures/tiny-moe --prompt The -n 16 --json").out);
  EXPECT_THAT(report["text"].get<std::string>(), HasSubstr("\x1b[31m"));
}

}  // namespace
}  // namespace moepack::cli
