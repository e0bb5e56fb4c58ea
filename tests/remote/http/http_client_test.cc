#include "libshard/remote/http/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>

#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "tests/remote/support/fault_server.h"
#include "tests/remote/support/quick_settings.h"
#include "tests/remote/support/scoped_variable.h"

namespace moepack::remote {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class RemoteClient : public testing::Test {
 protected:
  HttpRequest Request(const std::string& path) const {
    HttpRequest request;
    request.url = ParseUrl(server_.origin() + path).value();
    request.name = request.url.Shown();
    return request;
  }
  Error Refused(const std::string& path) {
    auto reply = client_->Fetch(Request(path), 1000);
    EXPECT_FALSE(reply);
    return reply ? Error{} : reply.error();
  }

  FaultServer server_;
  HttpClientPtr client_ = QuickClient();
};

TEST_F(RemoteClient, FetchesABodyAndCountsIt) {
  server_.Add("/a b", "hello");
  const auto reply = client_->Fetch(Request("/a%20b"), 1000);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(reply->body, "hello");
  EXPECT_EQ(client_->traffic().requests, 1u);
  EXPECT_EQ(client_->traffic().bytes, 5u);
  EXPECT_EQ(server_.requests()[0].Field("accept-encoding"), "identity");
}

TEST_F(RemoteClient, StopsABodyThatIsTooLong) {
  server_.Add("/long", std::string(8 << 20, 'x'));
  const Error error = Refused("/long");
  EXPECT_EQ(error.code, Code::kIo);
  EXPECT_EQ(error.message,
            server_.origin() + "/long: answer: expected at most 1000 bytes, found more");
  EXPECT_LT(client_->traffic().bytes, 4u << 20);
}

TEST_F(RemoteClient, RetriesTransientStatusesUpToFiveTries) {
  for (const int status : {408, 429, 500, 502, 503, 504}) {
    server_.Forget();
    server_.SetFault(
        [&](const FakeRequest&, FakeAnswer& answer) { answer = Plain(status, "busy"); });
    client_ = QuickClient();
    const Error error = Refused("/x");
    EXPECT_EQ(error.code, Code::kUnavailable);
    EXPECT_EQ(error.message, server_.origin() + "/x: expected the file, found status " +
                                 std::to_string(status) + ": \"busy\" (5 tries)");
    EXPECT_EQ(server_.requests().size(), 5u);
    EXPECT_EQ(client_->traffic().given_up, 1u);
  }
}

TEST_F(RemoteClient, AServerThatNeverAnswersIsTriedFiveTimesByAllRequestsTogether) {
  server_.SetFault([](const FakeRequest&, FakeAnswer& answer) { answer = Plain(503, "busy"); });
  const Error first = Refused("/x"), second = Refused("/y");
  EXPECT_THAT(first.message,
              HasSubstr("/x: expected the file, found status 503: \"busy\" (5 tries)"));
  EXPECT_EQ(second.message, first.message);
  EXPECT_EQ(second.code, Code::kUnavailable);
  EXPECT_EQ(server_.requests().size(), 5u);
  EXPECT_EQ(client_->traffic().given_up, 2u);
}

TEST_F(RemoteClient, AnAnswerLetsEveryLaterRequestHaveItsTries) {
  EXPECT_EQ(client_->Fetch(Request("/none"), 1000).value().status, 404);
  server_.SetFault([](const FakeRequest&, FakeAnswer& answer) { answer = Plain(503, "busy"); });
  server_.Forget();
  EXPECT_THAT(Refused("/x").message, HasSubstr("/x: "));
  const size_t asked = server_.requests().size();
  EXPECT_THAT(Refused("/y").message, HasSubstr("/y: "));
  EXPECT_GE(server_.requests().size(), asked + 5);
}

TEST_F(RemoteClient, RecoversWhenTheServerDoes) {
  server_.Add("/x", "hello");
  std::atomic<int> count = 0;
  server_.SetFault([&](const FakeRequest&, FakeAnswer& answer) {
    if (++count < 4) answer = Plain(503);
  });
  EXPECT_EQ(client_->Fetch(Request("/x"), 1000).value().body, "hello");
}

// One request in five fails on such a server, some of them many times in a row.
TEST_F(RemoteClient, ARunThatMakesProgressIsNotEndedByBusyAnswers) {
  HttpSettings settings = QuickSettings();
  settings.retry.patience = Seconds(60);
  client_ = QuickClient(settings);
  server_.Add("/x", "hello");
  EXPECT_TRUE(client_->Fetch(Request("/x"), 1000));
  std::atomic<int> count = 0;
  server_.SetFault([&](const FakeRequest&, FakeAnswer& answer) {
    if (++count > 20) return;
    answer = Plain(503);
    answer.Set("Retry-After", "0");
  });
  EXPECT_EQ(client_->Fetch(Request("/x"), 1000).value().body, "hello");
  EXPECT_EQ(client_->traffic().given_up, 0u);
}

TEST_F(RemoteClient, ARunWithoutProgressEnds) {
  HttpSettings settings = QuickSettings();
  settings.retry.patience = Seconds(0.1);
  client_ = QuickClient(settings);
  server_.Add("/x", "hello");
  EXPECT_TRUE(client_->Fetch(Request("/x"), 1000));
  server_.SetFault([](const FakeRequest&, FakeAnswer& answer) { answer = Plain(503, "busy"); });
  const Error error = Refused("/x");
  EXPECT_EQ(error.code, Code::kUnavailable);
  EXPECT_THAT(error.message, HasSubstr("found status 503: \"busy\" ("));
  EXPECT_THAT(error.message, HasSubstr(" tries, no progress for 0 s)"));
  EXPECT_GT(server_.requests().size(), 6u);
}

TEST_F(RemoteClient, AServerThatIsGoneIsTriedFiveTimes) {
  HttpSettings settings = QuickSettings();
  settings.retry.patience = Seconds(60);
  client_ = QuickClient(settings);
  server_.Add("/x", "hello");
  EXPECT_TRUE(client_->Fetch(Request("/x"), 1000));
  HttpRequest request = Request("/x");
  request.url.port = 1;
  const auto reply = client_->Fetch(request, 10);
  ASSERT_FALSE(reply);
  EXPECT_THAT(reply.error().message, HasSubstr("(5 tries)"));
}

TEST_F(RemoteClient, DoesNotRetryOtherStatuses) {
  EXPECT_EQ(client_->Fetch(Request("/none"), 1000).value().status, 404);
  EXPECT_EQ(server_.requests().size(), 1u);
  EXPECT_EQ(client_->traffic().given_up, 0u);
}

TEST_F(RemoteClient, HonorsAPauseThatTheServerRequests) {
  std::atomic<int> count = 0;
  server_.SetFault([&](const FakeRequest&, FakeAnswer& answer) {
    answer = Plain(++count < 2 ? 429 : 200);
    answer.Set("Retry-After", "1");
  });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(client_->Fetch(Request("/x"), 1000));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
}

TEST_F(RemoteClient, ATooLongRequestedPauseIsAnError) {
  server_.SetFault([&](const FakeRequest&, FakeAnswer& answer) {
    answer = Plain(429);
    answer.Set("RateLimit", "\"resolvers\";r=0;t=299");
  });
  const Error error = Refused("/x");
  EXPECT_EQ(error.code, Code::kUnavailable);
  EXPECT_EQ(error.message, server_.origin() + "/x: status 429: the server asks to wait 300 s");
  EXPECT_THAT(error.hint, HasSubstr("the server limits requests"));
  EXPECT_EQ(server_.requests().size(), 1u);
}

TEST_F(RemoteClient, ADateFarAwayIsAPauseOfMoreThanADay) {
  server_.SetFault([&](const FakeRequest&, FakeAnswer& answer) {
    answer = Plain(503);
    answer.Set("Retry-After", "Fri, 31 Dec 2100 23:59:59 GMT");
  });
  const Error error = Refused("/x");
  EXPECT_EQ(error.message,
            server_.origin() + "/x: status 503: the server asks to wait more than a day");
  EXPECT_THAT(error.hint, HasSubstr("the server is not available"));
}

TEST_F(RemoteClient, ABodyThatIsAlwaysCutOffIsAnError) {
  server_.Add("/x", std::string(500, 'x'));
  server_.SetFault([](const FakeRequest&, FakeAnswer& answer) { answer.cut_after = 100; });
  const Error error = Refused("/x");
  EXPECT_EQ(error.code, Code::kIo);
  EXPECT_THAT(error.message, HasSubstr("/x: 127.0.0.1: "));
  EXPECT_THAT(error.message, HasSubstr("(5 tries)"));
  EXPECT_EQ(client_->traffic().given_up, 1u);
}

TEST_F(RemoteClient, ATrickleOfBytesIsAStalledTransfer) {
  server_.Add("/x", std::string(500, 'x'));
  server_.SetFault([](const FakeRequest&, FakeAnswer& answer) {
    answer.per_byte = std::chrono::milliseconds(50);
  });
  HttpSettings settings = QuickSettings();
  settings.retry.tries = 1;
  settings.stall_seconds = 1;
  client_ = QuickClient(settings);
  const Error error = Refused("/x");
  EXPECT_EQ(error.code, Code::kIo);
  EXPECT_THAT(error.message, HasSubstr("Operation too slow. Less than 1024 bytes/sec"));
}

TEST_F(RemoteClient, AMissingServerIsUnavailable) {
  HttpRequest request = Request("/x");
  request.url.port = 1;
  const auto reply = client_->Fetch(request, 10);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::kUnavailable);
  EXPECT_THAT(reply.error().message, HasSubstr("127.0.0.1: Failed to connect"));
}

TEST_F(RemoteClient, AMissingProxyIsUnavailable) {
  const ScopedVariable proxy("http_proxy", "http://me:s3cret@127.0.0.1:1"), none("no_proxy", "");
  HttpSettings settings = QuickSettings();
  settings.plain_http = true;
  HttpRequest request = Request("/x");
  request.url.host = "models.test";
  const auto reply = QuickClient(settings)->Fetch(request, 10);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::kUnavailable);
  EXPECT_THAT(reply.error().message, HasSubstr("models.test: Failed to connect to 127.0.0.1"));
  EXPECT_THAT(reply.error().message, testing::Not(HasSubstr("s3cret")));
}

TEST_F(RemoteClient, FollowsAtMostFiveRedirects) {
  server_.Add("/end", "hello");
  server_.SetFault([](const FakeRequest& request, FakeAnswer& answer) {
    if (!request.path.starts_with("/hop")) return;
    const int hop = request.path.back() - '0';
    answer = LeadTo(302, hop == 1 ? "/end" : "/hop" + std::to_string(hop - 1));
  });
  EXPECT_EQ(client_->Fetch(Request("/hop5"), 100).value().body, "hello");
  const Error error = Refused("/hop6");
  EXPECT_EQ(error.code, Code::kIo);
  EXPECT_THAT(error.message, HasSubstr("/hop6: redirects: expected at most 5, found more"));
}

TEST_F(RemoteClient, ARedirectLoopIsAnError) {
  server_.SetFault(
      [](const FakeRequest& request, FakeAnswer& answer) { answer = LeadTo(301, request.path); });
  EXPECT_THAT(Refused("/x").message, HasSubstr("redirects: expected at most 5"));
}

TEST_F(RemoteClient, ARedirectToHttpElsewhereIsRefused) {
  server_.SetFault(
      [](const FakeRequest&, FakeAnswer& answer) { answer = LeadTo(302, "http://example.org/x"); });
  const Error error = Refused("/x");
  EXPECT_EQ(error.code, Code::kIo);
  EXPECT_EQ(error.message,
            server_.origin() + "/x: redirect: expected https, found http to example.org");
}

TEST_F(RemoteClient, ARedirectWithoutAValidLocationIsRefused) {
  server_.SetFault([](const FakeRequest&, FakeAnswer& answer) { answer = Plain(302); });
  EXPECT_THAT(Refused("/x").message, HasSubstr("expected a Location to follow, found none"));
  server_.SetFault(
      [](const FakeRequest&, FakeAnswer& answer) { answer = LeadTo(302, "file:///etc/passwd"); });
  EXPECT_THAT(Refused("/x").message, HasSubstr("found an invalid address"));
}

TEST_F(RemoteClient, DoesNotSendSecretsToAnotherOrigin) {
  FaultServer other;
  other.Add("/x", "hello");
  server_.SetFault(
      [&](const FakeRequest&, FakeAnswer& answer) { answer = LeadTo(302, other.origin() + "/x"); });
  HttpRequest request = Request("/x");
  request.authorization = "Bearer secret";
  EXPECT_EQ(client_->Fetch(request, 100).value().body, "hello");
  EXPECT_EQ(server_.requests()[0].Field("authorization"), "Bearer secret");
  EXPECT_EQ(other.requests()[0].Field("authorization"), "");
  request.authorization.clear();
  request.url.user = "me";
  request.url.password = "secret";
  EXPECT_EQ(client_->Fetch(request, 100).value().body, "hello");
  EXPECT_EQ(server_.requests()[1].Field("authorization"), "Basic bWU6c2VjcmV0");
  EXPECT_EQ(other.requests()[1].Field("authorization"), "");
}

TEST_F(RemoteClient, KeepsSecretsWithinTheirOriginOverRedirects) {
  server_.Add("/y", "hello");
  server_.SetFault([&](const FakeRequest& request, FakeAnswer& answer) {
    if (request.path == "/x") answer = LeadTo(302, server_.origin() + "/y");
  });
  HttpRequest request = Request("/x");
  request.url.user = "me";
  EXPECT_EQ(client_->Fetch(request, 100).value().body, "hello");
  EXPECT_EQ(server_.requests()[1].Field("authorization"), "Basic bWU6");
}

TEST_F(RemoteClient, AllowsPlainHttpOnlyToThisMachine) {
  HttpRequest request = Request("/x");
  request.url.host = "example.org";
  const auto reply = client_->Fetch(request, 10);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::kInvalidArgument);
  EXPECT_THAT(reply.error().message, HasSubstr("expected https, found http to example.org"));
  EXPECT_THAT(reply.error().hint, HasSubstr("--plain-http"));
}

TEST_F(RemoteClient, ACompressedBodyIsRefused) {
  server_.Add("/x", "hello");
  server_.SetFault(
      [](const FakeRequest&, FakeAnswer& answer) { answer.Set("Content-Encoding", "gzip"); });
  EXPECT_THAT(Refused("/x").message, HasSubstr("Content-Encoding: expected none, found \"gzip\""));
}

TEST_F(RemoteClient, AnEndlessHeaderIsRefused) {
  server_.SetFault([](const FakeRequest&, FakeAnswer& answer) {
    for (int i = 0; i < 5000; ++i) answer.fields.emplace_back("X-Long", std::string(90, 'x'));
  });
  EXPECT_EQ(Refused("/x").code, Code::kIo);
}

TEST_F(RemoteClient, ReusesConnectionsAndOpensAtMostEight) {
  server_.Add("/x", "hello");
  server_.SetDelay(std::chrono::milliseconds(5));
  ASSERT_TRUE(ParallelFor(64, 32, [&](size_t) -> Status {
    SHARD_TRY(const HttpReply reply, client_->Fetch(Request("/x"), 100));
    return reply.body == "hello" ? Ok() : Status(Error{});
  }));
  EXPECT_EQ(server_.requests().size(), 64u);
  EXPECT_LE(server_.connections(), 8u);
}

TEST_F(RemoteClient, SendsUpToEightRequestsAtOnceToEachHost) {
  FaultServer other;
  std::mutex mutex;
  std::condition_variable all;
  std::atomic<int> inside = 0;
  // Sixteen replies come only after all of them were requested.
  const auto wait = [&](const FakeRequest&, FakeAnswer& answer) {
    answer = Plain(200, "hello");
    std::unique_lock lock(mutex);
    ++inside;
    all.notify_all();
    all.wait_for(lock, std::chrono::seconds(20), [&] { return inside >= 16; });
  };
  server_.SetFault(wait);
  other.SetFault(wait);
  ASSERT_TRUE(ParallelFor(32, 32, [&](size_t i) -> Status {
    HttpRequest request = Request("/x");
    if (i % 2 == 1) request.url = ParseUrl(other.origin() + "/x").value();
    SHARD_TRY(const HttpReply reply, client_->Fetch(request, 100));
    EXPECT_GE(inside, 16);
    return reply.body == "hello" ? Ok() : Status(Error{});
  }));
  EXPECT_LE(server_.connections(), 8u);
  EXPECT_LE(other.connections(), 8u);
}

TEST_F(RemoteClient, SlowsDownBeforeTheRateLimit) {
  HttpSettings settings = QuickSettings();
  std::vector<std::string> warnings;
  settings.warn = [&](const std::string& text) { warnings.push_back(text); };
  client_ = QuickClient(settings);
  std::atomic<int> left = 2;
  server_.SetFault([&](const FakeRequest& request, FakeAnswer& answer) {
    answer = Plain(200, "hello");
    if (request.path != "/part/x") return;
    if (left == 0) answer = Plain(429);
    answer.Set("RateLimit", Cat("\"p\";r=", left > 0 ? --left : 0, ";t=1"));
  });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(client_->Fetch(Request("/part/x"), 100)->status, 200);
  EXPECT_EQ(client_->Fetch(Request("/part/x"), 100)->status, 200);
  // Other parts of the server have separate limits.
  EXPECT_EQ(client_->Fetch(Request("/other/x"), 100)->status, 200);
  EXPECT_TRUE(warnings.empty());
  left = 1000;
  EXPECT_EQ(client_->Fetch(Request("/part/x"), 100)->status, 200);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0],
            "127.0.0.1: the server's limit of requests is nearly reached: going slower until its "
            "window ends; log in for more");
}

TEST_F(RemoteClient, AnInterruptEndsATransfer) {
  server_.Add("/x", std::string(5000, 'x'));
  server_.SetFault([](const FakeRequest&, FakeAnswer& answer) {
    answer.per_byte = std::chrono::milliseconds(5);
    InterruptRequested() = true;
  });
  const auto reply = client_->Fetch(Request("/x"), 10000);
  InterruptRequested() = false;
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::kInterrupted);
}

TEST(RemoteSettings, TakesCaFilesFromTheEnvironment) {
  const ScopedVariable bundle("CURL_CA_BUNDLE", ""), file("SSL_CERT_FILE", "/a.pem"),
      directory("SSL_CERT_DIR", "/dir");
  EXPECT_EQ(SettingsFromEnvironment()->ca_file, "/a.pem");
  EXPECT_EQ(SettingsFromEnvironment()->ca_path, "/dir");
  const ScopedVariable again("CURL_CA_BUNDLE", "/b.pem");
  EXPECT_EQ(SettingsFromEnvironment()->ca_file, "/b.pem");
}

TEST(RemoteSettings, TakesThePatienceFromTheEnvironment) {
  const ScopedVariable patience("MOEPACK_PATIENCE", "1");
  const RetryRule rule = SettingsFromEnvironment().value().retry;
  EXPECT_EQ(rule.patience.count(), 1);
  EXPECT_EQ(rule.most.count(), 0.1);
  EXPECT_EQ(rule.first.count(), 0.1);
  const ScopedVariable none("MOEPACK_PATIENCE", "");
  EXPECT_EQ(SettingsFromEnvironment()->retry.patience.count(), 300);
}

TEST(RemoteSettings, APatienceThatIsNoNumberIsAnErrorThatNamesTheVariable) {
  for (const char* value : {"abc", "-1", "1.5", "300s"}) {
    const ScopedVariable patience("MOEPACK_PATIENCE", value);
    const auto settings = SettingsFromEnvironment();
    ASSERT_FALSE(settings) << value;
    EXPECT_EQ(settings.error().code, Code::kInvalidArgument);
    EXPECT_EQ(
        settings.error().message,
        std::string("MOEPACK_PATIENCE: expected a number of seconds, found \"") + value + "\"");
  }
}

}  // namespace
}  // namespace moepack::remote
