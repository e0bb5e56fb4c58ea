#include "libshard/remote/hub_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "fixtures/temp_dir.h"
#include "libshard/base/text/text.h"
#include "tests/remote/support/fake_hub.h"
#include "tests/remote/support/quick_settings.h"
#include "tests/remote/support/scoped_variable.h"

namespace moepack::remote {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class RemoteHub : public testing::Test {
 protected:
  void SetUp() override {
    hub_.Add("config.json", "{}", false);
    hub_.Add("a.safetensors", weights_, true);
    hub_.Add("b.safetensors", "more", true);
    hub_.Add("sub/c.gguf", "gguf", true);
    hub_.Add("sub/deep/d.gguf", "gguf", true);
    settings_.endpoint = ParseUrl(hub_.endpoint()).value();
    settings_.cache = dir_ / "hub";
  }
  Result<Source> Open(const std::string& name = "owner/model") {
    HttpSettings settings = QuickSettings();
    settings.warn = [this](const std::string& text) { warnings_.push_back(text); };
    SHARD_TRY(const HubName parsed, ParseHubName(name));
    return OpenHub(MakeTransport(QuickClient(settings)), settings_, parsed);
  }
  Error Refused(const std::string& name = "owner/model") {
    const auto source = Open(name);
    EXPECT_FALSE(source);
    return source ? Error{} : source.error();
  }
  static std::string Read(const Source& source, const std::string& file) {
    const auto text = source.tree->ReadText(file, 1 << 20);
    EXPECT_TRUE(text) << text.error().message;
    return text ? *text : "";
  }
  void PutInCache(const std::string& file, const std::string& text) {
    const std::filesystem::path path = settings_.cache / "models--owner--model" / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  size_t CountOf(const std::string& method, const std::string& part) {
    size_t count = 0;
    for (const FakeRequest& request : hub_.hub().requests())
      count += request.method == method && request.path.find(part) != std::string::npos;
    return count;
  }

  fixtures::TempDir dir_;
  FakeHub hub_;
  HubSettings settings_;
  std::string weights_ = std::string(300000, 'w');
  std::vector<std::string> warnings_;
};

TEST_F(RemoteHub, ReadsARepositoryAtTheCommitOfTheFirstReply) {
  const auto source = Open();
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ(source->tree->name(), "hf://owner/model@" + hub_.commit);
  EXPECT_THAT(source->tree->List("", ".safetensors").value(),
              ElementsAre("a.safetensors", "b.safetensors"));
  EXPECT_TRUE(source->tree->Has("config.json").value());
  EXPECT_FALSE(source->tree->Has("tokenizer.json").value());
  EXPECT_EQ(Read(*source, "config.json"), "{}");
  EXPECT_EQ(Read(*source, "a.safetensors"), weights_);
  EXPECT_EQ(CountOf("GET", "/revision/"), 1u);
  EXPECT_EQ(CountOf("HEAD", "a.safetensors"), 1u);
  EXPECT_EQ(hub_.cdn().requests().size(), 2u);  // the head and the rest
  for (const FakeRequest& request : hub_.hub().requests())
    EXPECT_TRUE(request.path.find("/revision/main") != std::string::npos ||
                request.path.find(hub_.commit) != std::string::npos)
        << request.path;
}

TEST_F(RemoteHub, SendsTheTokenOnlyToTheHub) {
  hub_.token = settings_.token = "hf_secret";
  const auto source = Open();
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ(Read(*source, "a.safetensors"), weights_);
  for (const FakeRequest& request : hub_.cdn().requests())
    EXPECT_EQ(request.Field("authorization"), "");
}

TEST_F(RemoteHub, OpensAFolderOrASingleFile) {
  const auto folder = Open("owner/model/sub");
  ASSERT_TRUE(folder) << folder.error().message;
  EXPECT_THAT(folder->tree->List("", ".gguf").value(), ElementsAre("c.gguf"));
  EXPECT_THAT(folder->tree->List("deep", "").value(), ElementsAre("d.gguf"));
  const auto file = Open("owner/model@refs/pr/1/sub/c.gguf");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->file, "c.gguf");
  EXPECT_EQ(Read(*file, "c.gguf"), "gguf");
  const Error error = Refused("owner/model/none");
  EXPECT_EQ(error.code, Code::kNotFound);
  EXPECT_THAT(error.message, HasSubstr("/none: expected a file or folder of the repository"));
}

TEST_F(RemoteHub, ResolvesAnExpiredAddressAgain) {
  hub_.LetSignaturesServe(1);
  const auto source = Open();
  EXPECT_EQ(Read(*source, "a.safetensors"), weights_);
  EXPECT_EQ(CountOf("HEAD", "a.safetensors"), 2u);
}

TEST_F(RemoteHub, ReportsARefusedFreshAddressWithoutItsSignature) {
  hub_.LetSignaturesServe(0);
  const auto source = Open();
  const auto file = source->tree->Open("a.safetensors");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, Code::kIo);
  EXPECT_THAT(file.error().message, HasSubstr("status 403: \"Request has expired\""));
  EXPECT_THAT(file.error().message, Not(HasSubstr("secret")));
}

TEST_F(RemoteHub, AMissingRepositoryIsNamed) {
  const Error error = Refused("owner/none");
  EXPECT_EQ(error.code, Code::kNotFound);
  EXPECT_EQ(error.message,
            "hf://owner/none: 127.0.0.1: expected a repository, found none of this name, or a "
            "private one");
  EXPECT_THAT(error.hint, HasSubstr("HF_TOKEN"));
}

TEST_F(RemoteHub, APrivateRepositoryLooksLikeAMissingOne) {
  hub_.token = "hf_secret";
  EXPECT_THAT(Refused().message, HasSubstr("found none of this name, or a private one"));
}

TEST_F(RemoteHub, ReportsThatAGatedRepositoryNeedsItsTermsAccepted) {
  hub_.SetFault([](const FakeRequest&, FakeAnswer& answer) {
    answer = Plain(403, "gated");
    answer.Set("X-Error-Code", "GatedRepo");
  });
  const Error error = Refused();
  EXPECT_EQ(error.code, Code::kIo);
  EXPECT_EQ(error.message,
            "hf://owner/model: 127.0.0.1: expected access, found a gated repository");
  EXPECT_THAT(error.hint, HasSubstr("accept its conditions on its page"));
}

TEST_F(RemoteHub, AMissingRevisionIsNamed) {
  const Error error = Refused("owner/model@v9");
  EXPECT_EQ(error.code, Code::kNotFound);
  EXPECT_THAT(error.message, HasSubstr("hf://owner/model@v9: 127.0.0.1: expected a branch, tag or "
                                       "commit, found no such revision"));
}

TEST_F(RemoteHub, AMissingFileIsNamed) {
  const auto source = Open();
  hub_.SetFault([](const FakeRequest& request, FakeAnswer& answer) {
    if (request.method != "HEAD") return;
    answer = Plain(404);
    answer.Set("X-Error-Code", "EntryNotFound");
  });
  const auto file = source->tree->Open("a.safetensors");
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message, HasSubstr("expected the file, found none of this name in this "
                                              "revision"));
}

TEST_F(RemoteHub, ARenamedRepositoryIsReadWithAWarning) {
  const auto source = Open("owner/old");
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_THAT(warnings_, ElementsAre("hf://owner/old: the repository has another name now: name "
                                     "it \"hf://owner/model\""));
  EXPECT_EQ(Read(*source, "config.json"), "{}");
}

TEST_F(RemoteHub, AReplyWithoutACommitIsRefused) {
  hub_.commit = "main";
  const Error first = Refused();
  EXPECT_EQ(first.code, Code::kIo);
  EXPECT_THAT(first.message, HasSubstr("expected the commit that the revision stands for"));
  EXPECT_THAT(first.hint, HasSubstr("HF_ENDPOINT"));
}

TEST_F(RemoteHub, AFileWithoutACommitIsRefused) {
  const auto source = Open();
  hub_.SetFault([](const FakeRequest&, FakeAnswer& answer) { answer.Remove("X-Repo-Commit"); });
  const auto file = source->tree->Open("a.safetensors");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, Code::kIo);
  EXPECT_THAT(file.error().message, HasSubstr("X-Repo-Commit: expected 0123456789abcdef"));
  EXPECT_THAT(file.error().message, HasSubstr("found none"));
}

TEST_F(RemoteHub, AnotherCommitEndsTheRunAndNamesBoth) {
  const auto source = Open();
  hub_.SetFault([](const FakeRequest&, FakeAnswer& answer) {
    answer.Set("X-Repo-Commit", std::string(40, 'f'));
  });
  const auto file = source->tree->Open("a.safetensors");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, Code::kCorrupt);
  EXPECT_THAT(file.error().message, HasSubstr("found ffffffffffffffffffffffffffffffffffffffff"));
}

TEST_F(RemoteHub, ASizeThatDiffersFromTheListIsCorrupt) {
  const auto source = Open();
  hub_.SetFault([](const FakeRequest&, FakeAnswer& answer) { answer.Set("X-Linked-Size", "7"); });
  EXPECT_THAT(source->tree->Open("a.safetensors").error().message,
              HasSubstr("size: expected 300000 bytes as listed, found 7"));
}

TEST_F(RemoteHub, AnInvalidListIsCorrupt) {
  for (const char* text : {"{}", "[{\"type\":\"file\",\"path\":\"a\"}]", "<html>", "[1"}) {
    hub_.SetFault([&](const FakeRequest& request, FakeAnswer& answer) {
      if (request.path.find("/tree/") != std::string::npos) answer = Plain(200, text);
    });
    EXPECT_EQ(Refused().code, Code::kCorrupt) << text;
  }
}

TEST_F(RemoteHub, DoesNotFetchFilesInTheHubCache) {
  PutInCache("snapshots/" + hub_.commit + "/a.safetensors", weights_);
  PutInCache("snapshots/" + hub_.commit + "/b.safetensors", "too short a download");
  const auto source = Open();
  EXPECT_EQ(Read(*source, "a.safetensors"), weights_);
  EXPECT_THAT(hub_.cdn().requests(), IsEmpty());
  EXPECT_EQ(Read(*source, "b.safetensors"), "more");
  EXPECT_EQ(hub_.cdn().requests().size(), 1u);
}

TEST_F(RemoteHub, UsesOnlyTheHubCacheWhenOffline) {
  settings_.offline = true;
  const Error error = Refused();
  EXPECT_EQ(error.code, Code::kUnavailable);
  EXPECT_THAT(error.message, HasSubstr("hf://owner/model@main: expected it in "));
  PutInCache("refs/main", hub_.commit + "\n");
  PutInCache("snapshots/" + hub_.commit + "/config.json", "{}");
  const auto source = Open();
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ(Read(*source, "config.json"), "{}");
  EXPECT_THAT(hub_.hub().requests(), IsEmpty());
}

TEST_F(RemoteHub, FallsBackToTheHubCacheWithAWarning) {
  hub_.SetFault([](const FakeRequest&, FakeAnswer& answer) { answer = Plain(503); });
  EXPECT_EQ(Refused().code, Code::kUnavailable);
  PutInCache("refs/main", hub_.commit);
  PutInCache("snapshots/" + hub_.commit + "/config.json", "{}");
  ASSERT_TRUE(Open());
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr("read from the cache: "));
}

TEST(RemoteHubName, ParsesNames) {
  const HubName name = ParseHubName("Qwen/Qwen3-30B-A3B@v1.0/sub/a.gguf").value();
  EXPECT_EQ(name.Id(), "Qwen/Qwen3-30B-A3B");
  EXPECT_EQ(name.revision, "v1.0");
  EXPECT_EQ(name.path, "sub/a.gguf");
  EXPECT_EQ(ParseHubName("a/b").value().revision, "main");
  EXPECT_EQ(ParseHubName("a/b@refs/pr/7/c").value().revision, "refs/pr/7");
  EXPECT_EQ(ParseHubName("a/b@feature%2Fx/c").value().revision, "feature/x");
  for (const char* wrong : {"", "a", "a/", "/b", "a/..", "a/b@", "a/b@../x", "a/b/../c", "a b/c",
                            "datasets/a/b", "a/b//c", "a/b@%2e%2e"}) {
    const auto refused = ParseHubName(wrong);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_THAT(refused.error().message, HasSubstr("expected owner/repository"));
  }
}

TEST(RemoteHubName, AcceptsAddressesOfHubPages) {
  HubSettings settings;
  settings.endpoint = ParseUrl("https://huggingface.co").value();
  const auto name = [&](const char* page) {
    const auto found = HubNameOfPage(settings, ParseUrl(page).value());
    return found ? Cat(found->Id(), "@", found->revision, "/", found->path) : std::string();
  };
  EXPECT_EQ(name("https://huggingface.co/a/b"), "a/b@main/");
  EXPECT_EQ(name("https://huggingface.co/a/b/tree/v1"), "a/b@v1/");
  EXPECT_EQ(name("https://huggingface.co/a/b/blob/main/c/d.gguf"), "a/b@main/c/d.gguf");
  EXPECT_EQ(name("https://huggingface.co/a/b/discussions"), "");
  EXPECT_EQ(name("https://huggingface.co/models"), "");
  EXPECT_EQ(name("https://example.org/a/b"), "");
}

TEST(RemoteHubSettings, HonorsTheVariablesOfTheOfficialClient) {
  const fixtures::TempDir dir;
  std::ofstream(dir / "token") << " hf_file\n";
  const ScopedVariable home("HF_HOME", dir.path().string()), token("HF_TOKEN", ""),
      old("HUGGING_FACE_HUB_TOKEN", ""), path("HF_TOKEN_PATH", ""), cache("HF_HUB_CACHE", ""),
      endpoint("HF_ENDPOINT", ""), off("HF_HUB_OFFLINE", "YES");
  HubSettings settings = HubSettingsFromEnvironment().value();
  EXPECT_EQ(settings.token, "hf_file");
  EXPECT_EQ(settings.cache, dir / "hub");
  EXPECT_EQ(settings.endpoint.Origin(), "https://huggingface.co");
  EXPECT_TRUE(settings.offline);
  const ScopedVariable newer("HF_TOKEN", "hf_env"), mirror("HF_ENDPOINT", "https://mirror:1/hub");
  settings = HubSettingsFromEnvironment().value();
  EXPECT_EQ(settings.token, "hf_env");
  EXPECT_EQ(settings.endpoint.Text(), "https://mirror:1/hub");
  const ScopedVariable none("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"), wrong("HF_ENDPOINT", "mirror");
  EXPECT_THAT(HubSettingsFromEnvironment().error().message, HasSubstr("HF_ENDPOINT: address"));
}

}  // namespace
}  // namespace moepack::remote
