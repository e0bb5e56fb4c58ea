#include "manifest/document/source_place.h"

#include <gtest/gtest.h>

namespace moepack::manifest {
namespace {

const std::string kCommit(40, 'a');

ModelRecord ReadFrom(const std::vector<std::string>& places) {
  ModelRecord model;
  for (const std::string& place : places) {
    SourceRecord source;
    source.file = "model.safetensors";
    if (!place.empty()) source.origin = Origin{place + "/model.safetensors", "", "", ""};
    model.source.push_back(source);
  }
  return model;
}

TEST(SourcePlace, AHubNameIsAnOwnerAndAName) {
  for (const char* name : {"Qwen/Qwen3-30B-A3B", "a/b", "o_1/n.2", "0/0"})
    EXPECT_TRUE(IsHubName(name)) << name;
  for (const std::string name :
       {"", "name", "/", "a/", "/b", "a/b/c", "../x", "a/..", "a/b--c", "a/.b", "-a/b", "a/b-",
        "a b/c", "a/b\n", "a/\"b", "a/b: c", "\xc3\xa4/b"})
    EXPECT_FALSE(IsHubName(name)) << name;
  EXPECT_TRUE(IsHubName("a/" + std::string(94, 'b')));
  EXPECT_FALSE(IsHubName("a/" + std::string(95, 'b')));
}

TEST(SourcePlace, FilesOfOneRepositoryGiveThatRepository) {
  const std::string place = "hf://owner/name@" + kCommit;
  EXPECT_EQ(HubRepositoryOf(ReadFrom({place, place})), "owner/name");
  EXPECT_EQ(SourceUrlOf(ReadFrom({place, place})),
            "https://huggingface.co/owner/name/tree/" + kCommit);
}

TEST(SourcePlace, OtherServersGiveTheAddressThatWasRead) {
  const ModelRecord model = ReadFrom({"https://host/models/a", "https://host/models/a"});
  EXPECT_EQ(HubRepositoryOf(model), "");
  EXPECT_EQ(SourceUrlOf(model), "https://host/models/a");
}

TEST(SourcePlace, FilesOfSeveralPlacesOrOfThisMachineHaveNoAddress) {
  const std::string place = "hf://owner/name@" + kCommit;
  for (const ModelRecord& model :
       {ReadFrom({}), ReadFrom({""}), ReadFrom({place, ""}), ReadFrom({place, "https://host/a"})}) {
    EXPECT_EQ(HubRepositoryOf(model), "");
    EXPECT_EQ(SourceUrlOf(model), "");
  }
  ModelRecord other = ReadFrom({place});
  other.source[0].file = "other.safetensors";
  EXPECT_EQ(SourceUrlOf(other), "");
}

// The manifest may be hostile: a name that the Hub would not accept is not a repository.
TEST(SourcePlace, ANameThatTheHubWouldRefuseIsNotARepository) {
  EXPECT_EQ(HubRepositoryOf(ReadFrom({"hf://owner/na\"me@" + kCommit})), "");
  EXPECT_EQ(HubRepositoryOf(ReadFrom({"hf://owner/name"})), "");
  EXPECT_EQ(HubRepositoryOf(ReadFrom({"hf://owner/name@" + kCommit + "/folder"})), "");
}

}  // namespace
}  // namespace moepack::manifest
