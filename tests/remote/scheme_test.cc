#include "libshard/remote/scheme.h"

#include <gmock/gmock.h>

namespace moepack::remote {
namespace {

using testing::HasSubstr;

std::string DownloadHint(const std::string& address) {
  return FindScheme(address)->download(address);
}

TEST(Scheme, SaysHowToDownloadWhatAnAddressNames) {
  EXPECT_EQ(DownloadHint("hf://Qwen/Qwen3-30B-A3B@main/model.safetensors"),
            "download it first, `hf download Qwen/Qwen3-30B-A3B --revision main "
            "--local-dir Qwen3-30B-A3B`, then name the directory Qwen3-30B-A3B");
  EXPECT_EQ(DownloadHint("https://huggingface.co/Qwen/Qwen3-30B-A3B/tree/main"),
            "download it first, `hf download Qwen/Qwen3-30B-A3B --local-dir "
            "Qwen3-30B-A3B`, then name the directory Qwen3-30B-A3B");
  EXPECT_EQ(DownloadHint("hf://"), "download the model with `hf download` first");
  EXPECT_THAT(DownloadHint("https://example.org/a b.gguf"),
              HasSubstr("`curl -LO 'https://example.org/a b.gguf'`"));
  EXPECT_THAT(DownloadHint("https://example.org/a.gguf?x=1"), HasSubstr("`curl -LO "));
  EXPECT_THAT(DownloadHint("https://example.org/model"),
              HasSubstr("`moepack pull https://example.org/model --group 0 -o pulled`"));
  EXPECT_THAT(DownloadHint("s3://bucket/model"),
              HasSubstr("aws s3 cp --recursive s3://bucket/model model`"));
}

TEST(Scheme, KnowsTheNamesThatTheHubUses) {
  EXPECT_EQ(MeantAddressHint("Qwen/Qwen3-30B-A3B"),
            "a model of the Hugging Face Hub is named hf://Qwen/Qwen3-30B-A3B");
  EXPECT_EQ(MeantAddressHint("Qwen/Qwen3-30B-A3B@v2"),
            "a model of the Hugging Face Hub is named hf://Qwen/Qwen3-30B-A3B@v2");
  for (const char* path : {"nothing", "/abs/path", "./a/b", "../a", "a/b/c", "a b/c", "a/$(id)"})
    EXPECT_EQ(MeantAddressHint(path), "") << path;
}

TEST(Scheme, IsRecognizedInAnyCase) {
  for (const char* address :
       {"hf://owner/name", "s3://bucket/prefix", "https://host/a", "http://h/a", "HF://owner/name"})
    EXPECT_TRUE(IsAddress(address)) << address;
  for (const char* other : {"gs://bucket/prefix", "oci://host/a", "layout:a", "owner/name", "hf:"})
    EXPECT_FALSE(IsAddress(other)) << other;
  EXPECT_EQ(FindScheme("S3://bucket"), &kS3);
}

TEST(Scheme, IsListedInMessagesUnlessTheHelpDoesNotOfferIt) {
  EXPECT_EQ(SchemeStarts(), "hf://, https:// and s3://");
  EXPECT_EQ(AddressForms(),
            "hf://owner/repository[@revision][/path], https://host/path/ or s3://bucket/prefix");
}

TEST(Scheme, TakesANameWithoutUserAndPassword) {
  EXPECT_EQ(NameIn(kS3, "S3://bucket/a@b").value(), "bucket/a@b");
  const auto name = NameIn(kHub, "hf://user:confidential@owner/model");
  ASSERT_FALSE(name);
  EXPECT_EQ(name.error().code, Code::kInvalidArgument);
  EXPECT_EQ(name.error().message,
            "hf://: expected a name, found a user or password in front of one");
}

}  // namespace
}  // namespace moepack::remote
