#include "libshard/remote/first_range.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text/text.h"
#include "tests/remote/support/fault_server.h"
#include "tests/remote/support/quick_settings.h"

namespace moepack::remote {
namespace {

using testing::HasSubstr;

class RemoteFirstRange : public testing::Test {
 protected:
  void SetUp() override { server_.Add("/f", std::string(100000, 'x')); }
  std::string name() const { return server_.origin() + "/f"; }
  Locate Where() const {
    return [this](const Url*) -> Result<HttpRequest> {
      HttpRequest request;
      request.url = ParseUrl(name()).value();
      return request;
    };
  }
  Result<FirstRange> First(uint64_t wanted = 1000) {
    return ReadFirstRange(*client_, name(), Where(), wanted);
  }
  Error Refused(const FaultServer::Fault& fault) {
    server_.SetFault(fault);
    const auto first = First();
    EXPECT_FALSE(first);
    return first ? Error{} : first.error();
  }
  void Allow(uint64_t bytes) {
    HttpSettings settings = QuickSettings();
    settings.whole_files = bytes;
    client_ = QuickClient(settings);
  }

  FaultServer server_;
  HttpClientPtr client_ = QuickClient();
};

// The reply of a server that does not support ranges.
void Ignore(const FakeRequest&, FakeAnswer& answer) {
  answer = Plain(200, std::string(100000, 'x'));
}

// 206 with a total of "*".
void HideTotal(const FakeRequest& request, FakeAnswer& answer) {
  if (answer.status != 206) return;
  const auto range = *request.Range();
  const uint64_t last = range.first + answer.body.size() - 1;
  answer.Set("Content-Range", Cat("bytes ", range.first, "-", last, "/*"));
}

TEST_F(RemoteFirstRange, DescribesTheFile) {
  const auto first = First();
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->file.size, 100000u);
  EXPECT_EQ(first->head.size(), 1000u);
  EXPECT_FALSE(first->whole);
  EXPECT_FALSE(first->file.validator.etag.empty());
  EXPECT_EQ(server_.requests()[0].Field("range"), "bytes=0-999");
  EXPECT_EQ(First(1 << 20)->head.size(), 100000u);
  server_.Add("/f", "");
  EXPECT_EQ(First()->file.size, 0u);
}

TEST_F(RemoteFirstRange, AShortFileMayComeWithoutRanges) {
  for (const bool chunked : {false, true}) {
    server_.SetFault([&](const FakeRequest&, FakeAnswer& answer) {
      answer = Plain(200, "hello");
      answer.chunked = chunked;
    });
    const auto first = First();
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(first->file.size, 5u);
    EXPECT_EQ(first->head.size(), 5u);
    EXPECT_TRUE(first->whole);
  }
}

TEST_F(RemoteFirstRange, RefusesABodyWithoutAMarkedEnd) {
  const Error error = Refused([](const FakeRequest&, FakeAnswer& answer) {
    answer = Plain(200, "hello");
    answer.no_length = true;
  });
  EXPECT_EQ(error.code, Code::kIo);
  EXPECT_THAT(error.message, HasSubstr("found status 200 with the whole file"));
}

TEST_F(RemoteFirstRange, StopsALongBodyWithoutALength) {
  const Error error = Refused([](const FakeRequest&, FakeAnswer& answer) {
    answer = Plain(200, std::string(20 << 20, 'x'));
    answer.chunked = true;
  });
  EXPECT_THAT(error.message, HasSubstr("the server ignores Range"));
  EXPECT_THAT(error.hint, HasSubstr("--allow-full-download"));
  EXPECT_LT(client_->traffic().bytes, 5u << 20);
}

TEST_F(RemoteFirstRange, NamesAnOptionOnlyWhereThereIsOne) {
  EXPECT_THAT(Refused(Ignore).hint, HasSubstr("--allow-full-download"));
  HttpSettings settings = QuickSettings();
  settings.may_allow_whole_files = false;
  client_ = QuickClient(settings);
  const Error error = Refused(Ignore);
  EXPECT_THAT(error.message, HasSubstr("the server ignores Range"));
  EXPECT_EQ(error.hint,
            "download the file first, or use a server that knows ranges (nginx, rclone and S3 do)");
}

TEST_F(RemoteFirstRange, FallsBackToHeadForTheSize) {
  server_.SetFault(HideTotal);
  const auto first = First();
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->file.size, 100000u);
  EXPECT_EQ(server_.requests()[1].method, "HEAD");
  std::string out(10, '.');
  const auto bytes = std::as_writable_bytes(std::span(out));
  EXPECT_TRUE(ReadRange(*client_, first->file, Where(), 5000, bytes));
  EXPECT_EQ(out, "xxxxxxxxxx");
  EXPECT_EQ(server_.requests().size(), 3u);
}

TEST_F(RemoteFirstRange, AnUnknownSizeIsAnError) {
  const Error none = Refused([](const FakeRequest& request, FakeAnswer& answer) {
    HideTotal(request, answer);
    if (request.method == "HEAD") answer = Plain(405);
  });
  EXPECT_EQ(none.code, Code::kIo);
  EXPECT_EQ(none.message, name() +
                              ": size: expected it in Content-Range, or as Content-Length of "
                              "HEAD, found none (HEAD: status 405)");
  EXPECT_THAT(none.hint, HasSubstr("download the file first"));
  const Error other = Refused([](const FakeRequest& request, FakeAnswer& answer) {
    HideTotal(request, answer);
    if (request.method == "HEAD") answer.Set("Content-Length", "77");
  });
  EXPECT_EQ(other.code, Code::kCorrupt);
  EXPECT_THAT(other.message, HasSubstr("expected 77 bytes of 77 as HEAD has it, found 1000"));
}

TEST_F(RemoteFirstRange, ReadsAWholeFileWhereThatIsAllowed) {
  for (const bool chunked : {false, true}) {
    Allow(100000);
    server_.SetFault([&](const FakeRequest& request, FakeAnswer& answer) {
      Ignore(request, answer);
      answer.chunked = chunked;
    });
    const auto first = First();
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_TRUE(first->whole);
    EXPECT_EQ(first->file.size, 100000u);
    EXPECT_EQ(first->head.size(), 100000u);
  }
}

TEST_F(RemoteFirstRange, LimitsTheTotalOfFilesReadWhole) {
  Allow(150000);
  server_.SetFault(Ignore);
  ASSERT_TRUE(First());
  const Error error = Refused(Ignore);
  EXPECT_EQ(error.code, Code::kIo);
  EXPECT_EQ(error.message, name() +
                               ": expected at most 150000 bytes of files that are read whole "
                               "(--allow-full-download), found 100000 in this one");
  EXPECT_THAT(error.hint, HasSubstr("download the file first"));
  EXPECT_EQ(client_->traffic().requests, 2u);
}

TEST_F(RemoteFirstRange, DoesNotCountAnInterruptedTryTwice) {
  Allow(100000);
  std::atomic<int> count = 0;
  server_.SetFault([&](const FakeRequest& request, FakeAnswer& answer) {
    Ignore(request, answer);
    if (++count < 3) answer.cut_after = 5000;
  });
  const auto first = First();
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->head.size(), 100000u);
}

TEST_F(RemoteFirstRange, ResumesABrokenTransferWhereItEnded) {
  std::string text;
  for (size_t i = 0; text.size() < 100000; ++i) text += Cat(i, " ");
  server_.Add("/f", text);
  server_.SetFault([](const FakeRequest&, FakeAnswer& answer) { answer.cut_after = 30000; });
  const auto first = First(1 << 20);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(first->head.data()), first->head.size()),
            text);
  EXPECT_EQ(first->file.size, text.size());
  const auto requests = server_.requests();
  ASSERT_EQ(requests.size(), 4u);
  EXPECT_EQ(requests[1].Field("range"), Cat("bytes=30000-", (1 << 20) - 1));
  EXPECT_EQ(requests[3].Field("range"), Cat("bytes=90000-", (1 << 20) - 1));
}

TEST_F(RemoteFirstRange, StartsAgainIfTheFileChangedAfterABrokenTransfer) {
  server_.SetFault([&](const FakeRequest&, FakeAnswer& answer) {
    if (server_.requests().size() > 1) return;
    answer.cut_after = 300;
    server_.Add("/f", std::string(900, 'y'));
  });
  const auto first = First();
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->file.size, 900u);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(first->head.data()), first->head.size()),
            std::string(900, 'y'));
}

TEST_F(RemoteFirstRange, RetriesARefusalOnceWithOtherCredentials) {
  std::string wanted = "Bearer two";
  server_.SetFault([&](const FakeRequest& request, FakeAnswer& answer) {
    if (request.Field("authorization") != wanted) answer = Plain(401, "who are you");
  });
  int located = 0;
  const Locate where = [&](const Url* refused) -> Result<HttpRequest> {
    HttpRequest request = *Where()(nullptr);
    request.authorization = refused == nullptr ? "Bearer one" : "Bearer two";
    ++located;
    return request;
  };
  const auto first = ReadFirstRange(*client_, name(), where, 1000);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->head.size(), 1000u);
  EXPECT_EQ(server_.requests().size(), 2u);
  wanted = "Bearer three";
  const auto refused = ReadFirstRange(*client_, name(), where, 1000);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("found status 401"));
  EXPECT_EQ(server_.requests().size(), 4u);
  EXPECT_EQ(located, 4);
}

}  // namespace
}  // namespace moepack::remote
