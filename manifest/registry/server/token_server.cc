#include "manifest/registry/server/token_server.h"

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>

#include "libshard/base/text/base64.h"
#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"

namespace moepack::registry {
namespace {

using remote::EncodeComponent;
using remote::HttpReply;
using remote::HttpRequest;
using std::chrono::seconds;

constexpr uint64_t kMostTokenAnswer = 1u << 20;
constexpr seconds kUsualLife{60}, kLongestLife{24 * 60 * 60};
constexpr size_t kMostTokenWords = 200;

// "2026-11-23T06:30:00.123Z" and "...+01:00" (RFC 3339) in seconds since 1970.
std::optional<int64_t> TimeOfDay(const std::string& text) {
  tm parts = {};
  const char* rest = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) return std::nullopt;
  std::string_view zone(rest);
  if (zone.starts_with('.'))
    zone.remove_prefix(std::min(zone.find_first_not_of("0123456789", 1), zone.size()));
  const int64_t time = timegm(&parts);
  if (zone == "Z" || zone == "z") return time;
  if (zone.size() != 6 || (zone[0] != '+' && zone[0] != '-') || zone[3] != ':') return std::nullopt;
  const auto hours = ParseUint(zone.substr(1, 2)), minutes = ParseUint(zone.substr(4, 2));
  if (!hours || !minutes) return std::nullopt;
  const auto ahead = static_cast<int64_t>(*hours * 3600 + *minutes * 60);
  return zone[0] == '+' ? time - ahead : time + ahead;
}

seconds LifeOf(const Json& answer, std::chrono::system_clock::time_point now) {
  seconds life = kUsualLife;
  const auto stated = answer.find("expires_in");
  if (stated != answer.end() && stated->is_number_unsigned()) {
    const auto most = static_cast<uint64_t>(kLongestLife.count());
    life = seconds(std::min(stated->get<uint64_t>(), most));
  }
  const std::optional<int64_t> issued = TimeOfDay(TextMember(answer, "issued_at"));
  if (!issued) return life;
  const seconds age =
      std::chrono::floor<seconds>(now.time_since_epoch()) - std::chrono::seconds(*issued);
  return age > seconds(0) && age < life ? life - age : life;
}

// The `query` of a GET, or the body of a POST.
std::string FormOf(const TokenQuestion& question, const std::vector<std::string>& scopes) {
  std::string form;
  if (!question.service.empty()) form += Cat("&service=", EncodeComponent(question.service));
  for (const std::string& scope : scopes) form += Cat("&scope=", EncodeComponent(scope));
  return form;
}

// With an identity token, OAuth requires all scopes in one parameter.
HttpRequest TokenRequest(const TokenQuestion& question, const Credentials& credentials) {
  HttpRequest request;
  request.url = question.realm;
  request.follow = HttpRequest::Follow::kRelative;
  request.expected = "a token";
  request.headers.push_back("Accept: application/json");
  const std::vector<std::string>& scopes = question.scopes;
  request.name = Cat(question.realm.host, ": token for ",
                     scopes.empty() ? "no scope" : Shown(Join(scopes, " ")));
  if (credentials.kind == Credentials::Kind::kIdentityToken) {
    request.method = "POST";
    request.headers.push_back("Content-Type: application/x-www-form-urlencoded");
    const std::vector<std::string> all = {Join(scopes, " ")};
    request.body = remote::TextBody(Cat("grant_type=refresh_token&client_id=moepack&refresh_token=",
                                        EncodeComponent(credentials.secret),
                                        FormOf(question, scopes.empty() ? scopes : all)));
    request.body->secret = true;
    return request;
  }
  const std::string form = FormOf(question, scopes);
  request.url.query += request.url.query.empty() && !form.empty() ? form.substr(1) : form;
  if (credentials.kind == Credentials::Kind::kBasic)
    request.authorization =
        Cat("Basic ", EncodeBase64(Cat(credentials.user, ":", credentials.secret)));
  return request;
}

// What the server says about a refusal, unless it may repeat what was sent to it.
std::string TokenWords(const HttpReply& reply, const Credentials& credentials) {
  const bool repeats =
      !credentials.secret.empty() && reply.body.find(credentials.secret) != std::string::npos;
  const std::string_view type = reply.Field("content-type");
  if (reply.body.empty() || !reply.quotable || repeats || type.find("html") != type.npos) return "";
  return Cat(", ", Quoted(reply.body.substr(0, kMostTokenWords)));
}

Error RefusedToken(const std::string& name, const HttpReply& reply,
                   const Credentials& credentials) {
  const bool anonymous = credentials.kind == Credentials::Kind::kNone;
  return {Code::kIo,
          Cat(name, ": expected a token, found status ", reply.status,
              TokenWords(reply, credentials), "; asked with ", credentials.Shown()),
          anonymous ? "log in: give --username and --password-stdin, or log in with docker, podman "
                      "or skopeo"
                    : "check the user's name and password or log in again, and check that they may "
                      "do this in this repository"};
}

}  // namespace

Result<Token> ParseToken(const std::string& name, std::string_view text,
                         std::chrono::system_clock::time_point now) {
  // The parser's message is left out: it may quote the token.
  const Result<Json> answer = ParseJson(name, text);
  Token token;
  if (answer && answer->is_object()) {
    token.text = TextMember(*answer, "token");
    if (token.text.empty()) token.text = TextMember(*answer, "access_token");
  }
  if (!IsHeaderToken(token.text)) {
    return Error{Code::kIo,
                 Cat(name,
                     ": expected JSON with \"token\" or \"access_token\" of visible "
                     "characters, found something else"),
                 "the token server is broken, or the registry names the wrong one"};
  }
  token.life = LifeOf(*answer, now);
  return token;
}

Result<Token> AskForToken(remote::HttpClient& client, const TokenQuestion& question,
                          const Credentials& credentials) {
  const HttpRequest request = TokenRequest(question, credentials);
  SHARD_TRY(const HttpReply reply, client.Fetch(request, kMostTokenAnswer));
  if (reply.status >= 300) return RefusedToken(request.name, reply, credentials);
  return ParseToken(request.name, reply.body, std::chrono::system_clock::now());
}

}  // namespace moepack::registry
