#include "libshard/base/files/local_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "fixtures/temp_dir.h"
#include "libshard/base/text/cat.h"

namespace moepack {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

void Put(const fs::path& path, const std::string& text = "text") {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

class LocalTreeTest : public testing::Test {
 protected:
  Error Refusal(const LocalTree& tree, const std::string& file) {
    const auto opened = tree.Open(file);
    if (!opened) return opened.error();
    ADD_FAILURE() << file << ": expected a refusal";
    return {Code::kIo, ""};
  }
  fixtures::TempDir dir_;
};

TEST_F(LocalTreeTest, OpensFilesInsideTheDirectoryAndReadsTexts) {
  Put(dir_ / "a/b", "0123456789");
  const LocalTree tree(dir_.path());
  const auto source = tree.Open("a/b");
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ((*source)->name(), (dir_ / "a/b").string());
  EXPECT_EQ(tree.NameOf("a/b"), (*source)->name());
  EXPECT_EQ((*source)->size(), 10u);
  EXPECT_TRUE((*source)->descriptor());
  std::string text(3, ' ');
  ASSERT_TRUE((*source)->ReadAt(4, std::as_writable_bytes(std::span(text))));
  EXPECT_EQ(text, "456");
  EXPECT_EQ(*tree.ReadText("a/b", 10), "0123456789");
  EXPECT_THAT(tree.ReadText("a/b", 9).error().message, HasSubstr("at most 9 bytes, found 10"));
  EXPECT_EQ(tree.LocalPath("a/b"), dir_ / "a/b");
}

TEST_F(LocalTreeTest, AFileOfTheCurrentDirectoryHasNoDirectoryInItsName) {
  const LocalTree beside_named(".", LinkRule::kInside, "a.json");
  EXPECT_EQ(beside_named.NameOf("a.json"), "a.json");
  EXPECT_EQ(beside_named.NameOf("b/c.json"), "b/c.json");
  EXPECT_EQ(beside_named.Open("absent.json").error().message.find("./"), std::string::npos);
  EXPECT_EQ(LocalTree(".").NameOf("a.json"), "./a.json");
  EXPECT_EQ(LocalTree("d", LinkRule::kInside, "a.json").NameOf("a.json"), "d/a.json");
}

TEST_F(LocalTreeTest, ANameThatLeadsOutsideIsRefusedWhateverIsThere) {
  Put(dir_ / "secret");
  fs::create_directory(dir_ / "tree");
  const LocalTree tree(dir_ / "tree");
  for (const std::string& file : {std::string("../secret"), std::string("a/../../secret"),
                                  (dir_ / "secret").string(), std::string("")}) {
    const Error error = Refusal(tree, file);
    EXPECT_EQ(error.code, Code::kCorrupt) << file;
    EXPECT_THAT(error.message, HasSubstr("name of a file: expected one inside of it, found"));
    EXPECT_FALSE(tree.Has(file)) << file;
  }
}

TEST_F(LocalTreeTest, ALinkOutOfTheDirectoryIsRefused) {
  Put(dir_ / "secret");
  Put(dir_ / "tree/own");
  fs::create_symlink("../secret", dir_ / "tree/out");
  fs::create_symlink("own", dir_ / "tree/in");
  const LocalTree tree(dir_ / "tree");
  const Error error = Refusal(tree, "out");
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("out: expected a file inside"));
  EXPECT_TRUE(tree.Open("in"));
  EXPECT_TRUE(LocalTree(dir_ / "tree", LinkRule::kInside, "out").Open("out"));
  EXPECT_TRUE(LocalTree(dir_ / "tree", LinkRule::kAnywhere).Open("out"));
}

TEST_F(LocalTreeTest, OnlyGgufPartsMayLinkOutsideUnderTheirRule) {
  Put(dir_ / "trunk");
  fs::create_directory(dir_ / "node");
  for (const char* name : {"a.gguf", "config.json"})
    fs::create_symlink("../trunk", dir_ / "node" / name);
  const LocalTree tree(dir_ / "node", LinkRule::kPartsAnywhere);
  EXPECT_TRUE(tree.Open("a.gguf"));
  EXPECT_EQ(Refusal(tree, "config.json").code, Code::kCorrupt);
}

TEST_F(LocalTreeTest, TheBlobsOfAHuggingFaceCacheCountAsInside) {
  Put(dir_ / "blobs/digest", "the blob");
  fs::create_directories(dir_ / "snapshots/main");
  fs::create_symlink("../../blobs/digest", dir_ / "snapshots/main/config.json");
  const auto text = LocalTree(dir_ / "snapshots/main").ReadText("config.json", 100);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text, "the blob");
}

TEST_F(LocalTreeTest, AMissingFileIsNotFoundAndADanglingLinkIsAnError) {
  const LocalTree tree(dir_.path());
  EXPECT_FALSE(*tree.Has("absent"));
  EXPECT_EQ(Refusal(tree, "absent").code, Code::kNotFound);
  fs::create_symlink("absent", dir_ / "link");
  EXPECT_THAT(tree.Has("link").error().message, HasSubstr("found a link to nothing"));
}

TEST_F(LocalTreeTest, ListsOnlyFilesDirectlyInTheFolder) {
  for (const char* name : {"b.safetensors", "a.safetensors", "a.safetensors.index.json",
                           "d.safetensors/c.safetensors"}) {
    Put(dir_ / name);
  }
  const LocalTree tree(dir_.path());
  EXPECT_THAT(*tree.List("", ".safetensors"), ElementsAre("a.safetensors", "b.safetensors"));
  EXPECT_THAT(*tree.List("d.safetensors", ""), ElementsAre("c.safetensors"));
  EXPECT_THAT(*tree.List("absent", ""), IsEmpty());
}

TEST_F(LocalTreeTest, ADirectoryThatCannotBeListedIsAnInputOutputError) {
  const auto names = LocalTree(dir_ / "absent").List("", "");
  ASSERT_FALSE(names);
  EXPECT_EQ(names.error().code, Code::kIo);
  EXPECT_THAT(names.error().message, HasSubstr("absent: list: No such file"));
}

TEST_F(LocalTreeTest, ASourceIsADirectoryOrAFileInOne) {
  Put(dir_ / "m.gguf");
  const auto whole = LocalSource(dir_.path());
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->file, "");
  const auto file = LocalSource(dir_ / "m.gguf");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->file, "m.gguf");
  EXPECT_EQ(file->tree->name(), dir_.path().string());
  EXPECT_EQ(LocalSource(dir_ / "absent").error().code, Code::kNotFound);
  EXPECT_EQ(LocalSource("owner/name").error().hint, "");
}

TEST_F(LocalTreeTest, AnAddressIsRefusedWithoutItsSecretsAndWithWhatToDo) {
  for (const auto& [source, shown] :
       {std::pair{"hf://owner/name", "hf://owner/name"},
        {"https://me:pw@host/a.gguf?X-Amz-Signature=c", "https://host/a.gguf"},
        {"any://me:pw@host/a.gguf", "any://host/a.gguf"}}) {
    const auto refused = LocalSource(source);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kNotFound);
    EXPECT_EQ(refused.error().message, Cat(shown, ": no such file or directory"));
    EXPECT_EQ(refused.error().hint,
              "that is an address, not a local file: download it first, then name the directory or "
              "file");
  }
}

}  // namespace
}  // namespace moepack
