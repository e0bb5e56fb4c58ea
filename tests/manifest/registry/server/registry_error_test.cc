#include "manifest/registry/server/registry_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text/text.h"

namespace moepack::registry {
namespace {

using remote::HttpReply;
using testing::HasSubstr;

const RefusedRequest kRefusedRequest = {"oci://h/x:v1", "h", "repository:x:pull,push",
                                        "credentials from ~/.docker/config.json (user u)"};

HttpReply RefusingReply(int status, const std::string& body,
                        const std::string& type = "text/plain") {
  HttpReply reply;
  reply.status = status;
  reply.body = body;
  reply.fields = {{"content-type", type}};
  return reply;
}

TEST(RegistryWords, GiveCodeAndMessageOfASpecifiedError) {
  EXPECT_EQ(RegistryWords(
                RefusingReply(404, R"({"errors":[{"code":"MANIFEST_UNKNOWN","message":"none"}]})")),
            "MANIFEST_UNKNOWN: \"none\"");
  EXPECT_EQ(RegistryWords(RefusingReply(404, R"({"errors":[{"code":"DENIED"}]})")), "DENIED");
  EXPECT_EQ(
      RegistryWords(RefusingReply(404, R"({"errors":[{"code":"A","message":"\u001b[31m"}]})")),
      "A: \"\\x1b[31m\"");
}

TEST(RegistryWords, QuoteOtherTextButNotWebPages) {
  EXPECT_EQ(RegistryWords(RefusingReply(404, "404 page not found\n")),
            "\"404 page not found\\x0a\"");
  EXPECT_EQ(RegistryWords(RefusingReply(413, "<html>...</html>", "text/html")), "a web page");
  EXPECT_EQ(RegistryWords(RefusingReply(413, "<HTML>...</HTML>")), "a web page");
  EXPECT_EQ(RegistryWords(RefusingReply(500, "")), "");
  EXPECT_EQ(RegistryWords(RefusingReply(500, R"({"errors":[]})")), R"("{\"errors\":[]}")");
  EXPECT_EQ(RegistryWords(RefusingReply(500, R"({"errors":[{"code":"<b>"}]})")),
            R"("{\"errors\":[{\"code\":\"<b>\"}]}")");
}

TEST(RegistryWords, QuoteTheTitleOfAWebPage) {
  const auto words = [](const std::string& page) {
    return RegistryWords(RefusingReply(502, page, "text/html"));
  };
  EXPECT_EQ(words("<html>\r\n<head><TITLE>502 Bad Gateway</TITLE></head>\r\n"),
            "a web page: \"502 Bad Gateway\"");
  EXPECT_EQ(words("<html><title>\x1b[31m</title>"), "a web page: \"\\x1b[31m\"");
  EXPECT_EQ(words(Cat("<html><title>", std::string(999, 'x'), "</title>")),
            Cat("a web page: \"", std::string(200, 'x'), "\""));
  EXPECT_EQ(words("</title><html><title>"), "a web page");
  EXPECT_EQ(words("<html><title>502"), "a web page");
}

TEST(RegistryWords, DoNotShowTextThatRepeatsSecrets) {
  HttpReply reply =
      RefusingReply(400, R"({"errors":[{"code":"DENIED","message":"token s3cret"}]})");
  reply.quotable = false;
  EXPECT_EQ(RegistryWords(reply), "DENIED");
  reply.body = "<html><title>token s3cret</title>";
  EXPECT_EQ(RegistryWords(reply), "a web page");
  reply.body = "token s3cret";
  EXPECT_EQ(RegistryWords(reply), "");
}

TEST(RegistryErrors, ARefusalNamesTheRequestedAccess) {
  const Error error = RegistryError(kRefusedRequest, RefusingReply(401, ""));
  EXPECT_EQ(error.code, Code::kIo);
  EXPECT_EQ(error.message,
            "oci://h/x:v1: expected access to repository:x:pull,push, found status 401 from h; "
            "asked with credentials from ~/.docker/config.json (user u)");
  EXPECT_THAT(
      RegistryError(kRefusedRequest, RefusingReply(403, R"({"errors":[{"code":"DENIED"}]})"))
          .message,
      HasSubstr("status 403 from h, DENIED; asked with"));
}

TEST(RegistryErrors, NotFoundMayMeanNoPermission) {
  const Error error = RegistryError(
      kRefusedRequest,
      RefusingReply(404, R"({"errors":[{"code":"MANIFEST_UNKNOWN","message":"m"}]})"));
  EXPECT_EQ(error.code, Code::kNotFound);
  EXPECT_EQ(error.message,
            "oci://h/x:v1: not found, or no permission (status 404, MANIFEST_UNKNOWN: \"m\")");
}

TEST(RegistryErrors, TooLargeSuggestsAProxy) {
  const Error error = RegistryError(kRefusedRequest, RefusingReply(413, "<html>", "text/html"));
  EXPECT_EQ(error.code, Code::kIo);
  EXPECT_EQ(error.message,
            "oci://h/x:v1: expected it to be accepted, found status 413 (too large), a web page");
  EXPECT_THAT(error.hint, HasSubstr("proxy"));
}

TEST(RegistryErrors, ABusyRegistryIsUnavailable) {
  for (const int status : {429, 500, 502, 503, 504})
    EXPECT_EQ(RegistryError(kRefusedRequest, RefusingReply(status, "")).code, Code::kUnavailable);
  const Error other = RegistryError(kRefusedRequest, RefusingReply(400, "no"));
  EXPECT_EQ(other.code, Code::kIo);
  EXPECT_EQ(other.message, "oci://h/x:v1: expected h to do it, found status 400, \"no\"");
}

}  // namespace
}  // namespace moepack::registry
