#include "libshard/remote/http_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/remote/html_listing.h"
#include "tests/remote/support/fault_server.h"
#include "tests/remote/support/quick_settings.h"

namespace moepack::remote {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RemoteHttpTree : public testing::Test {
 protected:
  Result<Source> Open(const std::string& address) {
    SHARD_TRY(const Url url, ParseUrl(address));
    return OpenHttp(MakeTransport(QuickClient()), url);
  }
  Result<Source> Model() { return Open(server_.origin() + "/model/"); }

  FaultServer server_;
};

TEST_F(RemoteHttpTree, ListsFilesFromTheDirectoryPage) {
  server_.SetListing(true);
  for (const char* name : {"a.safetensors", "b.safetensors", "sub/c.safetensors", "d e.gguf"})
    server_.Add(std::string("/model/") + name, "hello");
  const Source source = Model().value();
  EXPECT_EQ(source.tree->name(), server_.origin() + "/model");
  EXPECT_EQ(source.named, server_.origin() + "/model");
  EXPECT_THAT(source.tree->List("", ".safetensors").value(),
              ElementsAre("a.safetensors", "b.safetensors"));
  EXPECT_THAT(source.tree->List("", ".gguf").value(), ElementsAre("d e.gguf"));
  EXPECT_THAT(source.tree->List("sub", "").value(), ElementsAre("c.safetensors"));
  EXPECT_EQ(source.tree->ReadText("d e.gguf", 100).value(), "hello");
  EXPECT_EQ(source.tree->NameOf("d e.gguf"), server_.origin() + "/model/d%20e.gguf");
}

TEST_F(RemoteHttpTree, RequestsTheUsualNamesWithoutADirectoryPage) {
  server_.Add("/model/model.safetensors.index.json", "{}");
  const Source source = Model().value();
  EXPECT_THAT(source.tree->List("", ".safetensors.index.json").value(),
              ElementsAre("model.safetensors.index.json"));
  EXPECT_THAT(source.tree->List("", ".safetensors").value(), IsEmpty());
  EXPECT_THAT(source.tree->List("", ".gguf").value(), IsEmpty());
  EXPECT_TRUE(source.tree->Has("model.safetensors.index.json").value());
  EXPECT_FALSE(source.tree->Has("config.json").value());
}

TEST_F(RemoteHttpTree, RequestsEveryFileOnce) {
  server_.Add("/model/config.json", "{}");
  const Source source = Model().value();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(source.tree->Has("config.json").value());
    EXPECT_FALSE(source.tree->Has("tokenizer.json").value());
    EXPECT_EQ(source.tree->Open("config.json").value(), source.tree->Open("config.json").value());
    EXPECT_EQ(source.tree->ReadText("config.json", 10).value(), "{}");
  }
  EXPECT_EQ(server_.requests().size(), 2u);
  EXPECT_EQ(source.tree->traffic()->requests, 2u);
}

TEST_F(RemoteHttpTree, RequestsExpectedFilesConcurrently) {
  std::vector<std::string> names;
  for (int i = 0; i < 16; ++i) {
    names.push_back("a" + std::to_string(i));
    server_.Add("/model/" + names.back(), "hello");
  }
  server_.SetDelay(std::chrono::milliseconds(100));
  const Source source = Model().value();
  const auto start = std::chrono::steady_clock::now();
  source.tree->Expect(names);
  for (const std::string& name : names) EXPECT_TRUE(source.tree->Has(name).value());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(800));
  EXPECT_EQ(server_.requests().size(), 16u);
}

TEST_F(RemoteHttpTree, KeepsTheSignatureInTheAddressOfASingleFile) {
  server_.Add("/model/a b.gguf", "hello");
  server_.SetFault([](const FakeRequest& request, FakeAnswer& answer) {
    if (request.query != "Signature=secret") answer = Plain(403);
  });
  const auto source = Open(server_.origin() + "/model/a%20b.gguf?Signature=secret");
  ASSERT_TRUE(source);
  EXPECT_EQ(source->file, "a b.gguf");
  EXPECT_EQ(source->named, server_.origin() + "/model/a%20b.gguf");
  const auto file = source->tree->Open("a b.gguf");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ((*file)->name(), server_.origin() + "/model/a%20b.gguf");
  EXPECT_THAT(source->tree->Open("c").error().message, HasSubstr("/model/c: expected the file"));
}

TEST_F(RemoteHttpTree, NamesThatLeadOutsideAreRefused) {
  const Source source = Model().value();
  for (const char* name : {"../a", "/etc/passwd", "a/../../b", "", "a//b"}) {
    const auto file = source.tree->Open(name);
    ASSERT_FALSE(file) << name;
    EXPECT_EQ(file.error().code, Code::kCorrupt) << name;
    EXPECT_FALSE(source.tree->Has(name)) << name;
  }
  EXPECT_THAT(server_.requests(), IsEmpty());
}

TEST_F(RemoteHttpTree, DoesNotMistakeAFailingServerForAnEmptyOne) {
  server_.SetFault([](const FakeRequest&, FakeAnswer& answer) { answer = Plain(503); });
  const Source source = Model().value();
  EXPECT_EQ(source.tree->Has("a").error().code, Code::kUnavailable);
  EXPECT_EQ(source.tree->List("", ".gguf").error().code, Code::kUnavailable);
  EXPECT_EQ(source.tree->Open("a").error().code, Code::kUnavailable);
}

std::vector<std::string> Listed(const std::string& html) {
  return FilesOfListing(ParseUrl("https://host/m/").value(), html);
}

TEST(RemoteListing, ReadsDirectoryPagesOfSeveralServers) {
  EXPECT_THAT(Listed("<a href=\"../\">../</a>\n<a href=\"a%20b.gguf\">a b.gguf</a> 5\n"
                     "<a href=\"sub/\">sub/</a>"),
              ElementsAre("a b.gguf"));  // nginx, Python
  EXPECT_THAT(Listed("<a href=\"?C=N;O=D\">Name</a><a href=\"/\">Parent</a>"
                     "<a href='/m/x.json'>x</a>"),
              ElementsAre("x.json"));  // Apache
  EXPECT_THAT(Listed("<a href=\"./y&amp;z.json\">y</a><a href=\"./y&amp;z.json\"><svg/></a>"),
              ElementsAre("y&z.json"));  // rclone links twice
}

TEST(RemoteListing, IgnoresLinksThatLeadElsewhere) {
  EXPECT_THAT(Listed("<a href=\"https://evil/m/a\"><a href=\"/etc/passwd\"><a href=\"..%2Fa\">"
                     "<a href=\"%2e%2e\"><a href=\"a?x=1\"><a href=\"#top\"><a href=\"\">"
                     "<a href=a><a href=\"unended"),
              IsEmpty());
}

}  // namespace
}  // namespace moepack::remote
