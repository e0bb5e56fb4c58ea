#include "libshard/remote/http_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "fixtures/temp_dir.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "tests/remote/support/fault_server.h"
#include "tests/remote/support/quick_settings.h"

namespace moepack::remote {
namespace {

using testing::HasSubstr;

std::string Bytes(size_t count) {
  std::string text(count, '\0');
  uint32_t state = 1;
  for (char& c : text) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return text;
}

class RemoteSource : public testing::Test {
 protected:
  FilePlace PlaceOf(const std::string& path) {
    FilePlace place;
    place.name = server_.origin() + path;
    place.locate = [this, path](bool) -> Result<HttpRequest> {
      HttpRequest request;
      request.url = ParseUrl(server_.origin() + path).value();
      return request;
    };
    return place;
  }
  Result<ByteSourcePtr> Open(const std::string& path, std::optional<uint64_t> size = {}) {
    FilePlace place = PlaceOf(path);
    place.size = size;
    return HttpSource::Open(transport_, place);
  }
  static std::string Read(const ByteSource& source, uint64_t offset, size_t count) {
    std::string out(count, '\0');
    const Status status = source.ReadAt(offset, std::as_writable_bytes(std::span(out)));
    EXPECT_TRUE(status) << status.error().message;
    return out;
  }

  FaultServer server_;
  std::vector<std::string> warnings_;
  Transport transport_ = MakeTransport([this] {
    HttpSettings settings = QuickSettings();
    settings.warn = [this](const std::string& text) { warnings_.push_back(text); };
    return QuickClient(settings);
  }());
};

TEST_F(RemoteSource, ReadsTheHeaderWithTheFirstRequest) {
  const std::string text = Bytes(1 << 20);
  server_.Add("/a.safetensors", text);
  const auto source = Open("/a.safetensors");
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ((*source)->size(), text.size());
  EXPECT_EQ(Read(**source, 0, 8), text.substr(0, 8));
  EXPECT_EQ(Read(**source, 8, 131064), text.substr(8, 131064));
  EXPECT_EQ(server_.requests().size(), 1u);
}

TEST_F(RemoteSource, RequestsTheRestOfALongHeaderOnce) {
  const std::string text = Bytes(4 << 20);
  server_.Add("/a.safetensors", text);
  const auto source = Open("/a.safetensors");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Read(**source, 0, 300000), text.substr(0, 300000));
  EXPECT_EQ(server_.requests().size(), 2u);
  EXPECT_EQ(server_.requests()[1].Field("range"), "bytes=131072-299999");
}

TEST_F(RemoteSource, FetchesMoreOfTheFirstPartOfAGguf) {
  server_.Add("/a.gguf", Bytes(5 << 20));
  server_.Add("/a-00002-of-00003.gguf", Bytes(5 << 20));
  ASSERT_TRUE(Open("/a.gguf"));
  ASSERT_TRUE(Open("/a-00002-of-00003.gguf"));
  EXPECT_EQ(server_.requests()[0].Field("range"), "bytes=0-4194303");
  EXPECT_EQ(server_.requests()[1].Field("range"), "bytes=0-131071");
}

TEST_F(RemoteSource, SeveralThreadsReadAtOnce) {
  const std::string text = Bytes(8 << 20);
  server_.Add("/a.safetensors", text);
  const auto source = Open("/a.safetensors");
  const Status status = ParallelFor(64, 16, [&](size_t i) -> Status {
    const size_t at = i * 131072;
    return Read(**source, at, 131072) == text.substr(at, 131072) ? Ok() : Status(Error{});
  });
  EXPECT_TRUE(status);
  EXPECT_EQ(server_.requests().size(), 64u);  // the first range is not requested again
}

TEST_F(RemoteSource, SequentialSmallReadsShareFewRequests) {
  const std::string text = Bytes(4 << 20);
  server_.Add("/a.safetensors", text);
  const auto source = Open("/a.safetensors");
  server_.Forget();
  for (size_t at = 1 << 20; at < (2 << 20) - 4096; at += 4096)
    ASSERT_EQ(Read(**source, at, 1000), text.substr(at, 1000));
  EXPECT_LE(server_.requests().size(), 12u);  // of 255 reads
  const auto other = Open("/a.safetensors");
  server_.Forget();
  for (const size_t at : {3000000, 2500000, 4000000})
    EXPECT_EQ(Read(**other, at, 100), text.substr(at, 100));
  EXPECT_EQ(server_.bytes(), 300u);
}

TEST_F(RemoteSource, ReadsLittleAheadForAFewSmallReads) {
  const std::string text = Bytes(4 << 20);
  server_.Add("/a.safetensors", text);
  const auto source = Open("/a.safetensors");
  server_.Forget();
  for (const size_t at : {1u << 20, (1u << 20) + 600})
    EXPECT_EQ(Read(**source, at, 500), text.substr(at, 500));
  EXPECT_EQ(server_.bytes(), 500u + 4 * 1000);
}

TEST_F(RemoteSource, SendsSmallReadsOfSeveralThreadsConcurrently) {
  const std::string text = Bytes(4 << 20);
  server_.Add("/a.safetensors", text);
  const auto source = Open("/a.safetensors");
  constexpr int kTogether = 4;
  std::mutex mutex;
  std::condition_variable came;
  int count = 0;
  server_.SetFault([&](const FakeRequest&, FakeAnswer&) {
    std::unique_lock lock(mutex);
    ++count;
    came.notify_all();
    // Long enough for the slowest machine; the test fails after it.
    came.wait_for(lock, std::chrono::seconds(30), [&] { return count >= kTogether; });
    EXPECT_GE(count, kTogether);
  });
  EXPECT_TRUE(ParallelFor(kTogether, kTogether, [&](size_t i) -> Status {
    const size_t at = (i + 1) * 800000;
    return Read(**source, at, 4096) == text.substr(at, 4096) ? Ok() : Status(Error{});
  }));
}

TEST_F(RemoteSource, AReadPastTheEndIsCorrupt) {
  server_.Add("/a.json", "hello");
  const auto source = Open("/a.json");
  std::string out(6, '\0');
  const Status status = (*source)->ReadAt(0, std::as_writable_bytes(std::span(out)));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kCorrupt);
}

TEST_F(RemoteSource, NoticesAChangeAtTheEnd) {
  server_.Add("/a.json", "hello");
  const auto source = Open("/a.json");
  EXPECT_TRUE((*source)->CheckUnchanged());
  server_.Add("/a.json", "jello");
  const Status status = (*source)->CheckUnchanged();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kCorrupt);
  EXPECT_NE((*source)->identity(), (*Open("/a.json"))->identity());
}

TEST_F(RemoteSource, ASizeThatDiffersFromTheListIsCorrupt) {
  server_.Add("/a.json", "hello");
  const auto source = Open("/a.json", 6);
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code, Code::kCorrupt);
  EXPECT_THAT(source.error().message,
              HasSubstr("/a.json: size: expected 6 bytes as listed, found 5"));
}

TEST_F(RemoteSource, WarnsOfAServerWithoutValidators) {
  server_.Add("/a.json", "hello");
  server_.SetFault([](const FakeRequest&, FakeAnswer& answer) {
    answer.Remove("ETag");
    answer.Remove("Last-Modified");
  });
  ASSERT_TRUE(Open("/a.json"));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr("/a.json: the server gives neither ETag nor Last-Modified"));
}

// A file that a listing identifies, with a cache.
class ListedSource : public RemoteSource {
 protected:
  void SetUp() override {
    transport_.cache = RangeCache::Open(
        dir_ / "cache", 100u << 20, [this](const std::string& text) { warnings_.push_back(text); });
    server_.Add("/a.safetensors", text_);
  }
  ByteSourcePtr OpenListed() {
    FilePlace place = PlaceOf("/a.safetensors");
    place.size = text_.size();
    place.identity = identity_;
    const auto source = HttpSource::Open(transport_, place);
    EXPECT_TRUE(source) << source.error().message;
    return source ? *source : nullptr;
  }

  fixtures::TempDir dir_;
  std::string text_ = Bytes(2 << 20), identity_ = "blob 1";
};

TEST_F(ListedSource, ReadsCachedBytesWithoutARequest) {
  EXPECT_EQ(Read(*OpenListed(), 500000, 100000), text_.substr(500000, 100000));
  server_.Forget();
  const ByteSourcePtr again = OpenListed();
  EXPECT_EQ(Read(*again, 0, 131072), text_.substr(0, 131072));
  EXPECT_EQ(Read(*again, 520000, 70000), text_.substr(520000, 70000));
  EXPECT_TRUE(again->CheckUnchanged());
  EXPECT_EQ(server_.requests().size(), 0u);
  EXPECT_EQ(again->identity(), "blob 1");
}

TEST_F(ListedSource, FetchesOnlyTheRestOfAPartlyCachedRange) {
  EXPECT_EQ(Read(*OpenListed(), 500000, 500000), text_.substr(500000, 500000));
  server_.Forget();
  const ByteSourcePtr again = OpenListed();
  EXPECT_EQ(Read(*again, 400000, 700000), text_.substr(400000, 700000));
  ASSERT_EQ(server_.requests().size(), 3u);
  EXPECT_EQ(server_.requests()[0].Field("range"), "bytes=0-0");
  EXPECT_EQ(server_.requests()[1].Field("range"), "bytes=400000-499999");
  EXPECT_EQ(server_.requests()[2].Field("range"), "bytes=1000000-1099999");
  EXPECT_EQ(server_.bytes(), 200001u);
  EXPECT_TRUE(again->CheckUnchanged());
  server_.Add("/a.safetensors", text_ + "x");
  EXPECT_FALSE(again->CheckUnchanged());
}

TEST_F(ListedSource, ReadsAcrossASmallCachedRangeInOneRequest) {
  const ByteSourcePtr source = OpenListed();
  Read(*source, 500000, 100000);
  server_.Forget();
  EXPECT_EQ(Read(*source, 400000, 300000), text_.substr(400000, 300000));
  ASSERT_EQ(server_.requests().size(), 1u);
  EXPECT_EQ(server_.requests()[0].Field("range"), "bytes=400000-699999");
  EXPECT_EQ(Read(*source, 400000, 300000), text_.substr(400000, 300000));
  EXPECT_EQ(server_.requests().size(), 1u);
}

TEST_F(ListedSource, AFileThatNoLongerMatchesTheListIsCorrupt) {
  Read(*OpenListed(), 500000, 100000);
  server_.Add("/a.safetensors", text_ + "x");
  const ByteSourcePtr again = OpenListed();
  std::vector<std::byte> out(100000);
  const Status status = again->ReadAt(700000, out);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kCorrupt);
  EXPECT_THAT(status.error().message, HasSubstr("size: expected 2097152 bytes as listed"));
}

TEST_F(ListedSource, AnotherIdentityDoesNotUseTheCachedBytes) {
  OpenListed();
  identity_ = "blob 2";
  server_.Forget();
  OpenListed();
  EXPECT_EQ(server_.bytes(), 131073u);
  EXPECT_EQ(server_.requests().size(), 2u);  // a byte, in case the cache has it
}

TEST(RemoteHeadCache, EvictsOldHeadsForNewOnes) {
  HeadCache cache(100);
  const auto head = [](size_t bytes) { return std::make_shared<std::vector<std::byte>>(bytes); };
  cache.Put(1, head(40));
  cache.Put(2, head(40));
  EXPECT_NE(cache.Get(1), nullptr);
  cache.Put(3, head(40));
  EXPECT_EQ(cache.Get(2), nullptr);
  EXPECT_NE(cache.Get(1), nullptr);
  cache.Put(1, head(50));
  EXPECT_EQ(cache.Get(1)->size(), 50u);
  cache.Put(4, head(101));
  EXPECT_EQ(cache.Get(4), nullptr);
  EXPECT_NE(cache.Get(3), nullptr);
}

}  // namespace
}  // namespace moepack::remote
