// What HttpClient sends: bodies that are streamed, repeated if a server asks for it, and stopped
// when it refuses them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <future>

#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "libshard/remote/http/http_client.h"
#include "tests/remote/support/fault_server.h"
#include "tests/remote/support/quick_settings.h"

namespace moepack::remote {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class RemoteBody : public testing::Test {
 protected:
  HttpRequest Request(const std::string& method, const std::string& path) const {
    HttpRequest request;
    request.method = method;
    request.url = ParseUrl(server_.origin() + path).value();
    request.name = request.url.Shown();
    return request;
  }
  // Accepts everything and says so.
  void Accept() {
    server_.SetFault([](const FakeRequest& request, FakeAnswer& answer) {
      answer = Plain(201, std::to_string(request.body.size()));
    });
  }
  static std::string Text(size_t size) {
    std::string text(size, '\0');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + i * 7 % 26);
    return text;
  }
  // The text, and the offset of each read of it.
  HttpBody Noted(const std::string& text) {
    return {text.size(), [this, text](uint64_t offset, std::span<std::byte> out) -> Status {
              offsets_.push_back(offset);
              std::memcpy(out.data(), text.data() + offset, out.size());
              return Ok();
            }};
  }
  std::vector<std::string> Methods() const {
    std::vector<std::string> methods;
    for (const FakeRequest& request : server_.requests()) methods.push_back(request.method);
    return methods;
  }

  FaultServer server_;
  HttpClientPtr client_ = QuickClient();
  std::vector<uint64_t> offsets_;
};

TEST_F(RemoteBody, SendsABodyWithItsLength) {
  Accept();
  const std::string text = Text(3 << 20);
  for (const std::string method : {"POST", "PUT", "PATCH"}) {
    HttpRequest request = Request(method, "/x");
    request.body = TextBody(text);
    request.headers = {"Content-Type: application/octet-stream"};
    const auto reply = client_->Fetch(request, 100);
    ASSERT_TRUE(reply) << reply.error().message;
    EXPECT_EQ(reply->status, 201);
    EXPECT_EQ(reply->body, std::to_string(text.size()));
    const FakeRequest got = server_.requests().back();
    EXPECT_EQ(got.method, method);
    EXPECT_EQ(got.Field("content-length"), std::to_string(text.size()));
    EXPECT_EQ(got.Field("transfer-encoding"), "");
    EXPECT_EQ(got.Field("content-type"), "application/octet-stream");
    EXPECT_TRUE(got.body == text);
  }
}

TEST_F(RemoteBody, SendsALengthOfZeroWithoutABody) {
  Accept();
  for (const char* method : {"POST", "PUT", "PATCH"}) {
    EXPECT_EQ(client_->Fetch(Request(method, "/x"), 100)->status, 201);
    EXPECT_EQ(server_.requests().back().Field("content-length"), "0");
  }
  HttpRequest empty = Request("PUT", "/x");
  empty.body = TextBody("");
  EXPECT_EQ(client_->Fetch(empty, 100)->status, 201);
  EXPECT_EQ(server_.requests().back().Field("content-length"), "0");
  EXPECT_EQ(client_->Fetch(Request("DELETE", "/x"), 100)->status, 201);
  EXPECT_EQ(server_.requests().back().method, "DELETE");
  EXPECT_EQ(server_.requests().back().Field("content-length"), "");
}

TEST_F(RemoteBody, ReusesTheConnectionAfterABody) {
  Accept();
  HttpRequest request = Request("PUT", "/x");
  request.body = TextBody("hello");
  EXPECT_EQ(client_->Fetch(request, 100)->status, 201);
  EXPECT_EQ(client_->Fetch(Request("GET", "/x"), 100)->status, 201);
  EXPECT_EQ(client_->Fetch(Request("HEAD", "/x"), 100)->status, 201);
  EXPECT_THAT(Methods(), ElementsAre("PUT", "GET", "HEAD"));
  EXPECT_EQ(server_.requests()[1].body, "");
  EXPECT_EQ(server_.connections(), 1u);
}

TEST_F(RemoteBody, RepeatsMethodAndBodyAfterTemporaryRedirects) {
  for (const int status : {307, 308}) {
    server_.Forget();
    server_.SetFault([&](const FakeRequest& request, FakeAnswer& answer) {
      answer = request.path == "/x" ? LeadTo(status, "/y") : Plain(201);
    });
    HttpRequest request = Request("PUT", "/x");
    request.body = Noted(Text(10000));
    EXPECT_EQ(client_->Fetch(request, 100)->status, 201);
    EXPECT_THAT(Methods(), ElementsAre("PUT", "PUT"));
    EXPECT_EQ(server_.requests()[1].path, "/y");
    EXPECT_TRUE(server_.requests()[1].body == Text(10000));
  }
}

TEST_F(RemoteBody, ReturnsOtherRedirectsAsTheReply) {
  for (const int status : {301, 302, 303}) {
    server_.Forget();
    server_.SetFault(
        [&](const FakeRequest&, FakeAnswer& answer) { answer = LeadTo(status, "/y"); });
    HttpRequest request = Request("POST", "/x");
    request.body = TextBody("hello");
    EXPECT_EQ(client_->Fetch(request, 100)->status, status);
    EXPECT_THAT(Methods(), ElementsAre("POST"));
  }
}

TEST_F(RemoteBody, SendsABodyToAnotherOriginWithoutAuthorization) {
  FaultServer other;
  other.SetFault([](const FakeRequest&, FakeAnswer& answer) { answer = Plain(201); });
  server_.SetFault(
      [&](const FakeRequest&, FakeAnswer& answer) { answer = LeadTo(307, other.origin() + "/y"); });
  HttpRequest request = Request("PUT", "/x");
  request.body = TextBody("hello");
  request.authorization = "Bearer s3cret";
  EXPECT_EQ(client_->Fetch(request, 100)->status, 201);
  EXPECT_EQ(server_.requests()[0].Field("authorization"), "Bearer s3cret");
  EXPECT_EQ(other.requests()[0].Field("authorization"), "");
  EXPECT_EQ(other.requests()[0].body, "hello");
}

TEST_F(RemoteBody, NoticesARefusalBeforeSendingTheBody) {
  server_.SetBodyFault([](const FakeRequest&) { return BodyPlan{0, Plain(401, "who are you")}; });
  HttpRequest request = Request("PUT", "/x");
  request.body = Noted(Text(24 << 20));
  const HttpTry attempt = client_->FetchOnce(request, 100);
  ASSERT_FALSE(attempt.error) << attempt.error->message;
  EXPECT_EQ(attempt.reply.status, 401);
  EXPECT_EQ(attempt.reply.body, "who are you");
  EXPECT_THAT(offsets_, ElementsAre());
}

TEST_F(RemoteBody, ARefusalDuringTheBodyEndsTheTransfer) {
  server_.SetBodyFault([](const FakeRequest&) {
    return BodyPlan{1 << 20, Plain(413, "too much")};
  });
  HttpRequest request = Request("PUT", "/x");
  request.body = Noted(Text(24 << 20));
  const HttpTry attempt = client_->FetchOnce(request, 100);
  ASSERT_FALSE(attempt.error) << attempt.error->message;
  EXPECT_EQ(attempt.reply.status, 413);
  EXPECT_EQ(attempt.reply.body, "too much");
  EXPECT_LT(offsets_.back(), 23u << 20);
  // The connection is not reused in the middle of a body.
  server_.SetBodyFault({});
  Accept();
  EXPECT_EQ(client_->Fetch(Request("GET", "/y"), 100)->body, "0");
}

TEST_F(RemoteBody, KeepsARefusalEvenIfItsBodyIsCutOff) {
  server_.SetFault([](const FakeRequest&, FakeAnswer& answer) {
    answer = Plain(416);
    answer.Set("Content-Length", "59000000000");
    answer.cut_after = 0;
    answer.no_length = true;
  });
  const HttpTry attempt = client_->FetchOnce(Request("GET", "/x"), 100);
  ASSERT_FALSE(attempt.error) << attempt.error->message;
  EXPECT_EQ(attempt.reply.status, 416);
}

TEST_F(RemoteBody, ACutConnectionIsATransientError) {
  server_.SetBodyFault([](const FakeRequest&) { return BodyPlan{1 << 20}; });
  // The kernel may keep accepting bytes that nobody reads: then the transfer ends as a stalled one.
  HttpSettings settings = QuickSettings();
  settings.stall_seconds = 2;
  HttpRequest request = Request("PUT", "/x");
  request.body = Noted(Text(24 << 20));
  const HttpTry attempt = QuickClient(settings)->FetchOnce(request, 100);
  ASSERT_TRUE(attempt.error);
  EXPECT_EQ(attempt.error->code, Code::kIo);
  EXPECT_TRUE(attempt.transient);
  EXPECT_EQ(server_.requests().size(), 1u);
}

TEST_F(RemoteBody, ResendsTheBodyOnEveryTry) {
  std::atomic<int> count = 0;
  server_.SetBodyFault(
      [&](const FakeRequest&) { return ++count < 3 ? BodyPlan{1000} : BodyPlan{}; });
  Accept();
  HttpRequest request = Request("PUT", "/x");
  request.body = TextBody(Text(100000));
  const auto reply = client_->Fetch(request, 100);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->body, "100000");
  EXPECT_TRUE(server_.requests().back().body == Text(100000));
}

TEST_F(RemoteBody, AnErrorOfTheBodyEndsTheTransferAndIsReported) {
  HttpRequest request = Request("PUT", "/x");
  request.body = HttpBody{1 << 20, [](uint64_t, std::span<std::byte>) -> Status {
                            return Error{Code::kMismatch, "file: other bytes"};
                          }};
  const auto reply = client_->Fetch(request, 100);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::kMismatch);
  EXPECT_EQ(reply.error().message, "file: other bytes");
  EXPECT_EQ(server_.received(), 0u);
}

TEST_F(RemoteBody, ASingleTryReturnsAnyStatus) {
  for (const int status : {200, 404, 429, 503}) {
    server_.Forget();
    server_.SetFault([&](const FakeRequest&, FakeAnswer& answer) { answer = Plain(status, "x"); });
    const HttpTry attempt = client_->FetchOnce(Request("POST", "/x"), 100);
    ASSERT_FALSE(attempt.error);
    EXPECT_EQ(attempt.reply.status, status);
    EXPECT_EQ(attempt.reply.body, "x");
    EXPECT_EQ(server_.requests().size(), 1u);
  }
}

TEST_F(RemoteBody, DoesNotQuoteAReplyThatRepeatsASecretBody) {
  server_.SetFault([](const FakeRequest& request, FakeAnswer& answer) {
    answer = Plain(400, "bad: " + request.body);
  });
  HttpRequest request = Request("POST", "/token");
  request.body = TextBody("refresh_token=s3cret");
  request.body->secret = true;
  const auto reply = client_->Fetch(request, 100);
  EXPECT_EQ(StatusError("x", *reply, "a token").message, "x: expected a token, found status 400");
}

TEST_F(RemoteBody, AServerThatReadsNothingIsAStalledTransfer) {
  std::promise<void> client_gave_up;
  // The server's thread may read it after this test has ended, so it holds its own share.
  server_.SetBodyFault([over = client_gave_up.get_future().share()](const FakeRequest&) {
    over.wait();
    return BodyPlan{0};
  });
  HttpSettings settings = QuickSettings();
  settings.stall_seconds = 1;
  HttpRequest request = Request("PUT", "/x");
  request.body = Noted(Text(24 << 20));
  const HttpTry attempt = QuickClient(settings)->FetchOnce(request, 100);
  client_gave_up.set_value();
  ASSERT_TRUE(attempt.error);
  EXPECT_TRUE(attempt.transient);
  EXPECT_THAT(attempt.error->message,
              HasSubstr("127.0.0.1: the server took less than 1024 bytes/s for 1 s"));
}

TEST_F(RemoteBody, AReplyMayTakeLongerThanTheStallLimit) {
  Accept();
  server_.SetDelay(std::chrono::milliseconds(1600));
  HttpSettings settings = QuickSettings();
  settings.stall_seconds = 1;
  HttpRequest request = Request("PUT", "/x");
  request.body = TextBody("hello");
  EXPECT_EQ(QuickClient(settings)->FetchOnce(request, 100).reply.status, 201);
  settings.answer_seconds = 1;
  const HttpTry attempt = QuickClient(settings)->FetchOnce(request, 100);
  ASSERT_TRUE(attempt.error);
  EXPECT_THAT(attempt.error->message, HasSubstr("no answer for 1 s after the last byte"));
}

TEST_F(RemoteBody, RefusesAPauseThatIsTooLong) {
  HttpReply reply;
  reply.status = 429;
  reply.fields = {{"retry-after", "500"}};
  const Status pause = HttpClient::PauseAfterTry(RetryRule{}, "x", reply, 1);
  ASSERT_FALSE(pause);
  EXPECT_EQ(pause.error().code, Code::kUnavailable);
  EXPECT_EQ(pause.error().message, "x: status 429: the server asks to wait 500 s");
}

TEST_F(RemoteBody, AnInterruptEndsAnUpload) {
  HttpRequest request = Request("PUT", "/x");
  request.body = HttpBody{8 << 20, [](uint64_t, std::span<std::byte> out) -> Status {
                            std::memset(out.data(), 'x', out.size());
                            InterruptRequested() = true;
                            return Ok();
                          }};
  const auto reply = client_->Fetch(request, 100);
  InterruptRequested() = false;
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::kInterrupted);
}

}  // namespace
}  // namespace moepack::remote
