#include "libshard/remote/http/range_read.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "libshard/base/text/text.h"
#include "libshard/remote/first_range.h"
#include "tests/remote/support/fault_server.h"
#include "tests/remote/support/quick_settings.h"

namespace moepack::remote {
namespace {

using testing::HasSubstr;

std::string Numbers(size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += Cat(text.size(), " ");
  text.resize(bytes);
  return text;
}

class RemoteRange : public testing::Test {
 protected:
  void SetUp() override { server_.Add("/model.safetensors", text_); }

  Locate Where() const {
    return [this](const Url*) -> Result<HttpRequest> {
      HttpRequest request;
      request.url = ParseUrl(server_.origin() + "/model.safetensors").value();
      return request;
    };
  }
  std::string name() const { return server_.origin() + "/model.safetensors"; }
  Result<FirstRange> First(uint64_t wanted = 1000) {
    return ReadFirstRange(*client_, name(), Where(), wanted);
  }
  // Reads 300 bytes at 5000 with a fault that starts after the first reply.
  Status ReadWith(const FaultServer::Fault& fault) {
    SHARD_TRY(const FirstRange first, First());
    server_.Forget();
    server_.SetFault(fault);
    std::string out(300, '\0');
    SHARD_CHECK(
        ReadRange(*client_, first.file, Where(), 5000, std::as_writable_bytes(std::span(out))));
    EXPECT_EQ(out, text_.substr(5000, 300));
    return Ok();
  }
  Error Refused(const FaultServer::Fault& fault) {
    const Status status = ReadWith(fault);
    EXPECT_FALSE(status);
    return status ? Error{} : status.error();
  }
  Error FirstRefused(const FaultServer::Fault& fault) {
    server_.SetFault(fault);
    const auto first = First();
    EXPECT_FALSE(first);
    return first ? Error{} : first.error();
  }

  FaultServer server_;
  HttpClientPtr client_ = QuickClient();
  std::string text_ = Numbers(100000);
};

TEST_F(RemoteRange, ReadsARangeWithItsValidator) {
  const Status status = ReadWith({});
  EXPECT_TRUE(status) << status.error().message;
  EXPECT_EQ(server_.requests()[0].Field("range"), "bytes=5000-5299");
  EXPECT_EQ(server_.requests()[0].Field("if-range").size(), 14u);
  EXPECT_EQ(server_.bytes(), 300u);
}

TEST_F(RemoteRange, ResumesAnInterruptedBody) {
  std::atomic<int> count = 0;
  const Status status = ReadWith([&](const FakeRequest&, FakeAnswer& answer) {
    if (++count == 1) answer.cut_after = 100;
  });
  EXPECT_TRUE(status) << status.error().message;
  EXPECT_EQ(server_.requests()[1].Field("range"), "bytes=5100-5299");
}

TEST_F(RemoteRange, DoesNotCountTriesThatMakeGoodProgress) {
  const std::string large = Numbers(9 << 20);
  server_.Add("/model.safetensors", large);
  const auto first = First();
  ASSERT_TRUE(first) << first.error().message;
  server_.SetFault([](const FakeRequest&, FakeAnswer& answer) { answer.cut_after = 5 << 18; });
  std::string out(large.size(), '.');
  const auto bytes = std::as_writable_bytes(std::span(out));
  const Status status = ReadRange(*client_, first->file, Where(), 0, bytes);
  EXPECT_TRUE(status) << status.error().message;
  EXPECT_TRUE(out == large);
  EXPECT_GT(server_.requests().size(), 7u);
}

TEST_F(RemoteRange, ABodyThatIsAlwaysCutOffIsAnErrorWithItsPosition) {
  const Error error =
      Refused([](const FakeRequest&, FakeAnswer& answer) { answer.cut_after = 10; });
  EXPECT_EQ(error.code, Code::kIo);
  EXPECT_THAT(error.message, HasSubstr(name() + ": bytes 50"));
  EXPECT_THAT(error.message, HasSubstr("(5 tries)"));
}

TEST_F(RemoteRange, RefusesAServerThatIgnoresRangeBeforeItsBody) {
  const std::string whole(20 << 20, 'x');
  const Error first =
      FirstRefused([&](const FakeRequest&, FakeAnswer& answer) { answer = Plain(200, whole); });
  EXPECT_EQ(first.code, Code::kIo);
  EXPECT_EQ(first.message, name() +
                               ": expected status 206 with this range, found status 200 with "
                               "all 20971520 bytes: the server ignores Range");
  EXPECT_LT(client_->traffic().bytes, 5u << 20);
  server_.SetFault({});
  const Error later = Refused([](const FakeRequest&, FakeAnswer& answer) {
    answer = Plain(200, std::string(1 << 20, 'x'));
  });
  EXPECT_THAT(later.message, HasSubstr("bytes 5000-5299: expected status 206"));
  EXPECT_THAT(later.hint, HasSubstr("nginx"));
}

TEST_F(RemoteRange, AWrongContentRangeIsCorrupt) {
  for (const char* lie : {"bytes 5001-5300/100000", "bytes 5000-5298/100000", "bytes 0-299/100000",
                          "bytes 5000-5299/*", "bytes 5299-5000/100000", "nothing", "",
                          "bytes 5000-18446744073709551615/100000"}) {
    const Error error =
        Refused([&](const FakeRequest&, FakeAnswer& answer) { answer.Set("Content-Range", lie); });
    EXPECT_EQ(error.code, Code::kCorrupt) << lie;
    EXPECT_THAT(error.message, HasSubstr(Cat(name(),
                                             ": bytes 5000-5299: Content-Range: expected "
                                             "bytes 5000-5299/100000, found ")))
        << lie;
    server_.SetFault({});
  }
  const Error first = FirstRefused([](const FakeRequest&, FakeAnswer& answer) {
    answer.Set("Content-Range", "bytes 1-1000/100000");
  });
  EXPECT_EQ(first.code, Code::kCorrupt);
  EXPECT_THAT(first.message, HasSubstr("Content-Range: expected the first of 1000 bytes"));
}

TEST_F(RemoteRange, AWrongContentLengthIsCorrupt) {
  const Error error =
      Refused([](const FakeRequest&, FakeAnswer& answer) { answer.Set("Content-Length", "299"); });
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("Content-Length: expected 300, found \"299\""));
}

TEST_F(RemoteRange, StopsABodyWithMoreBytesThanRequested) {
  const Error error = Refused([](const FakeRequest&, FakeAnswer& answer) {
    answer.body += std::string(10 << 20, 'x');
    answer.no_length = true;
  });
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_EQ(error.message, name() + ": body: expected 300 bytes, found more");
  EXPECT_LT(client_->traffic().bytes, 4u << 20);
}

TEST_F(RemoteRange, FewerBytesThanRequestedAreAnError) {
  const Error error = Refused([](const FakeRequest&, FakeAnswer& answer) {
    answer.body.clear();
    answer.no_length = true;
  });
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_EQ(error.message, name() +
                               ": read at offset 5000: expected 300 bytes, found 0 before "
                               "the end of the file");
}

TEST_F(RemoteRange, RefusesCompressedAndMultipartRepliesAndWebPages) {
  EXPECT_THAT(Refused([](const FakeRequest&, FakeAnswer& answer) {
                answer.Set("Content-Encoding", "gzip");
              }).message,
              HasSubstr("Content-Encoding: expected none, found \"gzip\""));
  server_.SetFault({});
  EXPECT_THAT(Refused([](const FakeRequest&, FakeAnswer& answer) {
                answer.Set("Content-Type", "multipart/byteranges; boundary=x");
              }).message,
              HasSubstr("Content-Type: expected one range, found \"multipart/byteranges"));
  const Error page = FirstRefused([](const FakeRequest&, FakeAnswer& answer) {
    answer = Plain(200, "<html>log in</html>");
    answer.Set("Content-Type", "text/html; charset=utf-8");
  });
  EXPECT_EQ(page.message, name() + ": Content-Type: expected a file, found a web page");
}

TEST_F(RemoteRange, AChangedETagIsAnErrorThatNamesBoth) {
  const auto first = First();
  server_.Add("/model.safetensors", Numbers(100001));
  std::string out(10, '\0');
  const Status status =
      ReadRange(*client_, first->file, Where(), 0, std::as_writable_bytes(std::span(out)));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kCorrupt);
  EXPECT_THAT(status.error().message,
              testing::MatchesRegex(".*: the file was changed while it was read: expected ETag "
                                    "\"[0-9a-f]+\", found ETag \"[0-9a-f]+\""));
  const Error other =
      Refused([](const FakeRequest&, FakeAnswer& answer) { answer.Set("ETag", "\"other\""); });
  EXPECT_THAT(other.message, HasSubstr("found ETag \"other\""));
}

TEST_F(RemoteRange, FallsBackToLastModifiedWithoutAStrongETag) {
  const auto weak = [](const FakeRequest&, FakeAnswer& answer) { answer.Set("ETag", "W/\"x\""); };
  server_.SetFault(weak);
  const auto first = First();
  EXPECT_EQ(first->file.validator.etag, "");
  server_.SetFault([&](const FakeRequest& request, FakeAnswer& answer) {
    weak(request, answer);
    answer.Set("Last-Modified", "Sun, 02 Aug 2026 10:00:00 GMT");
  });
  std::string out(10, '\0');
  const Status status =
      ReadRange(*client_, first->file, Where(), 0, std::as_writable_bytes(std::span(out)));
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message,
              HasSubstr("expected Last-Modified Sat, 01 Aug 2026 10:00:00 GMT, found Last-Modified "
                        "Sun, 02 Aug 2026 10:00:00 GMT"));
}

TEST_F(RemoteRange, AStalledTransferNamesItsPosition) {
  HttpSettings settings = QuickSettings();
  settings.retry.tries = 2;
  settings.stall_seconds = 1;
  client_ = QuickClient(settings);
  const Error error = Refused([](const FakeRequest&, FakeAnswer& answer) {
    answer.per_byte = std::chrono::milliseconds(50);
  });
  EXPECT_EQ(error.code, Code::kIo);
  EXPECT_THAT(error.message, HasSubstr(name() + ": bytes 50"));
  EXPECT_THAT(error.message, HasSubstr("127.0.0.1: Operation too slow"));
  EXPECT_THAT(error.message, HasSubstr("(2 tries)"));
  EXPECT_THAT(error.hint, HasSubstr("run the command again"));
}

TEST_F(RemoteRange, UsesLastModifiedOnlyIfItIsSurelyInThePast) {
  struct Case {
    const char *etag, *date;
    bool guards;
  };
  // Last-Modified is 10:00:00.
  for (const Case& one : {Case{"", "Sat, 01 Aug 2026 10:00:01 GMT", true},
                          {"", "Sat, 01 Aug 2026 10:00:00 GMT", false},
                          {"", "Sat, 01 Aug 2026 09:00:00 GMT", false},
                          {"", "", false},
                          {"W/\"x\"", "Sat, 01 Aug 2026 11:00:00 GMT", false}}) {
    const auto fault = [&](const FakeRequest&, FakeAnswer& answer) {
      answer.Remove("ETag");
      if (one.etag[0] != '\0') answer.Set("ETag", one.etag);
      answer.Set("Date", one.date);
    };
    server_.SetFault(fault);
    EXPECT_TRUE(ReadWith(fault));
    EXPECT_EQ(server_.requests()[0].Field("if-range"),
              one.guards ? "Sat, 01 Aug 2026 10:00:00 GMT" : "")
        << one.date;
  }
}

TEST_F(RemoteRange, AnotherSizeIsAChange) {
  const Error error = Refused([](const FakeRequest&, FakeAnswer& answer) {
    answer.Set("Content-Range", "bytes 5000-5299/100001");
  });
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("found 100001 bytes"));
}

TEST_F(RemoteRange, ReportsRefusalsOfARange) {
  EXPECT_THAT(Refused([](const FakeRequest&, FakeAnswer& answer) { answer = Plain(412); }).message,
              HasSubstr("found another file (status 412)"));
  server_.SetFault({});
  EXPECT_THAT(Refused([](const FakeRequest&, FakeAnswer& answer) {
                answer = Plain(416);
                answer.Set("Content-Range", "bytes */77");
              }).message,
              HasSubstr("the file was changed while it was read"));
  server_.SetFault({});
  const Error bogus = Refused([](const FakeRequest&, FakeAnswer& answer) { answer = Plain(416); });
  EXPECT_EQ(bogus.code, Code::kCorrupt);
  EXPECT_THAT(bogus.message, HasSubstr("expected this range of 100000 bytes, found status 416"));
  server_.SetFault({});
  const Error denied = Refused([](const FakeRequest&, FakeAnswer& answer) { answer = Plain(403); });
  EXPECT_EQ(denied.code, Code::kIo);
  EXPECT_THAT(denied.message, HasSubstr("bytes 5000-5299: expected the file, found status 403"));
}

TEST_F(RemoteRange, RenewsAnExpiredAddressAtMostTwice) {
  std::atomic<int> renewals = 0;
  const Locate where = [&](const Url* refused) -> Result<HttpRequest> {
    if (refused) ++renewals;
    SHARD_TRY(HttpRequest request, Where()(nullptr));
    request.url.query = Cat("signature=", renewals.load());
    return request;
  };
  const auto first = First();
  server_.SetFault([](const FakeRequest& request, FakeAnswer& answer) {
    if (request.query != "signature=1") answer = Plain(403, "expired");
  });
  std::string out(10, '\0');
  EXPECT_TRUE(ReadRange(*client_, first->file, where, 0, std::as_writable_bytes(std::span(out))));
  EXPECT_EQ(renewals, 1);
  server_.SetFault([](const FakeRequest&, FakeAnswer& answer) { answer = Plain(403, "expired"); });
  const Status status =
      ReadRange(*client_, first->file, where, 0, std::as_writable_bytes(std::span(out)));
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("found status 403: \"expired\""));
  EXPECT_EQ(renewals, 3);
}

TEST_F(RemoteRange, RetriesARefusalWithOtherCredentials) {
  const auto first = First();
  server_.SetFault([](const FakeRequest& request, FakeAnswer& answer) {
    if (request.Field("authorization") != "Bearer two") answer = Plain(401, "who are you");
  });
  const Locate where = [&](const Url* refused) -> Result<HttpRequest> {
    HttpRequest request = *Where()(nullptr);
    request.authorization = refused == nullptr ? "Bearer one" : "Bearer two";
    return request;
  };
  std::string out(300, '\0');
  const Status read =
      ReadRange(*client_, first->file, where, 5000, std::as_writable_bytes(std::span(out)));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(out, text_.substr(5000, 300));
}

}  // namespace
}  // namespace moepack::remote
