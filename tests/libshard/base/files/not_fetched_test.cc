#include "libshard/base/files/not_fetched.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/safetensors_writer.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/files/file.h"
#include "libshard/model/model.h"

namespace moepack {
namespace {

using testing::HasSubstr;

const char kPointer[] =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    "size 4997741608\n";

TEST(NotFetched, AGitLfsPointerIsReportedWithItsSizeAndHowToFetchIt) {
  const Status status = CheckNoLfsPointer("a/tokenizer.model", std::string_view(kPointer));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kNotFound);
  EXPECT_EQ(status.error().message,
            "a/tokenizer.model: expected the file itself, found a Git LFS pointer to 5.00 GB");
  EXPECT_THAT(status.error().hint, HasSubstr("git lfs pull"));
  EXPECT_TRUE(CheckNoLfsPointer("a", std::string_view("version 2")));
}

TEST(NotFetched, EveryReaderOfTextsAndShardsRecognizesAPointer) {
  const fixtures::TempDir dir;
  for (const char* name : {"tokenizer.model", "tokenizer.json", "config.json"}) {
    ASSERT_TRUE(fixtures::WriteFile(dir / name, kPointer));
    const auto text = ReadTextFile(dir / name, 1 << 20);
    ASSERT_FALSE(text) << name;
    EXPECT_THAT(text.error().message, HasSubstr("Git LFS pointer to 5.00 GB"));
  }
  for (const char* name : {"model.safetensors", "model.gguf", "model.safetensors.index.json"}) {
    ASSERT_TRUE(fixtures::WriteFile(dir / name, kPointer));
    const auto model = MoeModel::Open(dir / name);
    ASSERT_FALSE(model) << name;
    EXPECT_THAT(model.error().message, HasSubstr("Git LFS pointer to 5.00 GB"));
  }
}

TEST(NotFetched, AddressesGivenAsPathsGetAHint) {
  const std::string later = "this command reads local files only: ";
  EXPECT_EQ(RemoteSourceHint("hf://Qwen/Qwen3-30B-A3B@main/model.safetensors"),
            later +
                "download it first, `hf download Qwen/Qwen3-30B-A3B --revision main "
                "--local-dir Qwen3-30B-A3B`, then name the directory Qwen3-30B-A3B");
  EXPECT_EQ(RemoteSourceHint("https://huggingface.co/Qwen/Qwen3-30B-A3B/tree/main"),
            later +
                "download it first, `hf download Qwen/Qwen3-30B-A3B --local-dir "
                "Qwen3-30B-A3B`, then name the directory Qwen3-30B-A3B");
  EXPECT_EQ(RemoteSourceHint("hf://"), later + "download the model with `hf download` first");
  EXPECT_THAT(RemoteSourceHint("https://example.org/a b.gguf"),
              HasSubstr("`curl -LO 'https://example.org/a b.gguf'`"));
  EXPECT_THAT(RemoteSourceHint("s3://bucket/model"), HasSubstr("aws s3 cp --recursive"));
  EXPECT_EQ(RemoteSourceHint("Qwen/Qwen3-30B-A3B"),
            "a model of the Hugging Face Hub is named hf://Qwen/Qwen3-30B-A3B");
  EXPECT_EQ(RemoteSourceHint("Qwen/Qwen3-30B-A3B@v2"),
            "a model of the Hugging Face Hub is named hf://Qwen/Qwen3-30B-A3B@v2");
  for (const char* path : {"nothing", "/abs/path", "./a/b", "../a", "a/b/c", "a b/c", "a/$(id)"})
    EXPECT_EQ(RemoteSourceHint(path), "") << path;
}

TEST(NotFetched, AddressesAreNamedWithoutTheirSecrets) {
  EXPECT_EQ(WithoutSecrets("https://me:pw@host:8/a@b?X-Amz-Signature=c#d"), "https://host:8/a@b");
  EXPECT_EQ(WithoutSecrets("http://host?token=x"), "http://host");
  for (const char* same : {"hf://a/b@rev", "s3://b/c", "dir/a?b", "https://host/a%20b"})
    EXPECT_EQ(WithoutSecrets(same), same);
  const auto model = MoeModel::Open("https://me:pw@host/a.gguf?X-Amz-Signature=c");
  EXPECT_EQ(model.error().message, "https://host/a.gguf: no such file or directory");
  EXPECT_THAT(model.error().hint, HasSubstr("curl -LO https://host/a.gguf`"));
}

TEST(NotFetched, ASourceThatIsNotALocalPathIsRefusedWithTheHint) {
  for (const auto& [source, hint] :
       {std::pair{"hf://Qwen/Qwen3-30B-A3B", "hf download Qwen/Qwen3-30B-A3B"},
        {"Qwen/Qwen3-30B-A3B", "is named hf://Qwen/Qwen3-30B-A3B"}}) {
    const auto model = MoeModel::Open(source);
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().code, Code::kNotFound);
    EXPECT_THAT(model.error().hint, HasSubstr(hint));
  }
}

TEST(NotFetched, EverySchemeIsAnAddressInAnyCaseAndHasAHint) {
  for (const char* source :
       {"hf://owner/name", "s3://bucket/prefix", "https://host/a", "http://h/a"})
    EXPECT_TRUE(IsAddress(source) && !RemoteSourceHint(source).empty()) << source;
  EXPECT_TRUE(IsAddress("HF://owner/name"));
  for (const char* source : {"gs://bucket/prefix", "oci://host/a", "layout:a", "owner/name", "hf:"})
    EXPECT_FALSE(IsAddress(source)) << source;
}

}  // namespace
}  // namespace moepack
