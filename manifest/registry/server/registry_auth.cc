#include "manifest/registry/server/registry_auth.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include "libshard/base/text/base64.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/server/challenge.h"
#include "manifest/registry/server/token_server.h"

namespace moepack::registry {
namespace {

using remote::HttpReply;
using remote::Url;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Scheme = Challenge::Scheme;
using Kind = Credentials::Kind;
using Instant = std::chrono::steady_clock::time_point;

// A registry that names a different token server every time is not followed further.
constexpr int kMostLogins = 4;

// How much of a token's life the next request needs.
milliseconds Margin(milliseconds life) {
  const milliseconds part = life / 5;
  return life < seconds(120) ? part : std::max<milliseconds>(part, seconds(60));
}

milliseconds FreshFor(milliseconds life) {
  return std::clamp<milliseconds>(life / 2, seconds(1), seconds(5));
}

// Scopes sorted and without duplicates, so that they make one key.
std::vector<std::string> ScopeSet(const std::vector<std::string>& scopes,
                                  const Challenge& challenge) {
  std::vector<std::string> all = scopes.empty() ? Split(challenge.scope, ' ') : scopes;
  std::erase(all, "");
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

bool SameLogin(const Challenge& one, const Challenge& other) {
  const bool same = one.scheme == other.scheme;
  if (one.scheme == Scheme::kBasic) return same;
  return same && one.realm == other.realm && one.service == other.service;
}

Error WrongRealm(const std::string& host, const char* expected, const std::string& found) {
  return {Code::kIo,
          Cat(host, ": token server of the registry: expected ", expected, ", found ", found),
          "the registry directs its clients to a server that should get no credentials: check its "
          "address, or tell its operators"};
}

// One token, or the place for one.
struct KeptToken {
  std::string text;  // "" for none
  seconds life{0};
  Instant since;
  bool asked_for = false;        // a thread is fetching it
  std::optional<Error> failure;  // of the last attempt
};

class RegistryAuth final : public Authorizer {
 public:
  explicit RegistryAuth(RegistryAuthOptions options) : options_(std::move(options)) {}

  Result<std::string> HeaderFor(const std::vector<std::string>& scopes) override {
    std::unique_lock lock(mutex_);
    if (!challenge_) return std::string();
    if (!WantsTokens()) return fixed_;
    SHARD_TRY(const std::string token, TokenFor(scopes, lock));
    return Cat("Bearer ", token);
  }

  Result<bool> Refused(const HttpReply& reply, const std::vector<std::string>& scopes,
                       const std::string& used) override {
    const std::unique_lock lock(mutex_);
    SHARD_TRY(const std::optional<Challenge> asked, ChooseChallenge(reply));
    if (!asked) return false;
    if (!credentials_) {
      SHARD_TRY(credentials_, options_.find());
    }
    if (!challenge_ || !SameLogin(*asked, *challenge_)) {
      if (logins_ == kMostLogins) return false;
      SHARD_CHECK(Check(reply.url, *asked));
      ++logins_;
      challenge_ = *asked;
      fixed_ = FixedHeader();
      return WantsTokens() || fixed_ != used;
    }
    if (!WantsTokens()) return fixed_ != used;
    if (used.empty()) return true;
    return Drop(scopes, used);
  }

  std::string Shown() const override {
    const std::lock_guard lock(mutex_);
    return credentials_.value_or(Credentials{}).Shown();
  }

 private:
  // Tokens are preferred to passwords; without a challenge the previous one applies.
  Result<std::optional<Challenge>> ChooseChallenge(const HttpReply& reply) const {
    const std::vector<Challenge> all = ChallengesOf(reply.fields);
    for (const Scheme scheme : {Scheme::kBearer, Scheme::kBasic}) {
      for (const Challenge& challenge : all) {
        if (challenge.scheme == scheme) return std::optional(challenge);
      }
    }
    if (all.empty()) return challenge_;
    return Error{
        Code::kUnsupported,
        Cat(reply.url.host, ": login: expected Basic or Bearer, found ", Quoted(all[0].name)),
        "moepack knows no other way to log in to a registry"};
  }

  bool WantsTokens() const {
    return challenge_->scheme == Scheme::kBearer && credentials_->kind != Kind::kBearer;
  }

  // The header for all requests, if it is not a token from a token server.
  std::string FixedHeader() const {
    const Credentials& who = *credentials_;
    if (who.kind == Kind::kBearer) return Cat("Bearer ", who.secret);
    if (who.kind != Kind::kBasic) return "";
    return Cat("Basic ", EncodeBase64(Cat(who.user, ":", who.secret)));
  }

  // Whether this challenge may be answered to this registry.
  Status Check(const Url& registry, const Challenge& asked) const {
    SHARD_CHECK(CheckTransport(registry));
    if (asked.scheme == Scheme::kBasic) {
      if (credentials_->kind != Kind::kIdentityToken) return Ok();
      return Error{Code::kUnsupported,
                   Cat(registry.host,
                       ": login: expected a user and a password, found an identity "
                       "token in the ",
                       credentials_->Shown()),
                   "give --username and --password-stdin"};
    }
    if (credentials_->kind == Kind::kBearer) return Ok();
    const Result<Url> realm = remote::ParseUrl(asked.realm);
    if (!realm)
      return WrongRealm(registry.host, "an address", asked.realm.empty() ? "none" : "no address");
    if (realm->scheme != "https" && registry.scheme == "https")
      return WrongRealm(registry.host, "https", Cat("http to ", realm->host));
    SHARD_CHECK(CheckTransport(*realm));
    const bool leads_away =
        realm->host != registry.host && !MayLead(KindsOfHost(registry.host, options_.resolve),
                                                 KindsOfHost(realm->host, options_.resolve));
    if (!leads_away) return Ok();
    return WrongRealm(registry.host, "a server that is as public as the registry",
                      Cat(realm->host, ", which only this network or this machine can see"));
  }

  // The registry and the token server both see credentials.
  Status CheckTransport(const Url& url) const {
    if (url.scheme == "https" || url.IsLoopback() || options_.plain_http_credentials ||
        credentials_->kind == Kind::kNone)
      return Ok();
    return Error{Code::kInvalidArgument,
                 Cat(url.host, ": login: expected https for ", credentials_->Shown(),
                     ", found http to another machine"),
                 "use https, or --plain-http-credentials if nobody else can read the network in "
                 "between"};
  }

  KeptToken& Place(const std::vector<std::string>& scope_set) {
    return tokens_[{challenge_->realm, challenge_->service, scope_set}];
  }

  // A token's remaining life is measured from its arrival, with a clock that only runs forward.
  bool IsGood(const KeptToken& kept) const {
    return !kept.text.empty() && options_.now() - kept.since < kept.life - Margin(kept.life);
  }

  Result<std::string> TokenFor(const std::vector<std::string>& scopes,
                               std::unique_lock<std::mutex>& lock) {
    const std::vector<std::string> scope_set = ScopeSet(scopes, *challenge_);
    KeptToken& kept = Place(scope_set);  // which the map never moves
    while (kept.asked_for) {
      came_.wait(lock, [&] { return !kept.asked_for; });
      if (kept.failure) return *kept.failure;
      if (!kept.text.empty()) return kept.text;
    }
    if (IsGood(kept)) return kept.text;
    Result<Token> token = AskUnlocked(kept, scope_set, lock);
    kept.text.clear();
    if (!token) {
      kept.failure = token.error();
      return std::move(token).error();
    }
    kept.failure.reset();
    kept.text = token->text;
    kept.life = token->life;
    kept.since = options_.now();
    return kept.text;
  }

  // Other threads continue meanwhile, except those that need the same token.
  Result<Token> AskUnlocked(KeptToken& kept, const std::vector<std::string>& scope_set,
                            std::unique_lock<std::mutex>& lock) {
    SHARD_TRY(Url realm, remote::ParseUrl(challenge_->realm));
    realm.user = realm.password = "";
    const TokenQuestion question{std::move(realm), challenge_->service, scope_set};
    const Credentials credentials = *credentials_;
    struct OnTheWay {
      RegistryAuth& auth;
      KeptToken& kept;
      std::unique_lock<std::mutex>& lock;
      OnTheWay(RegistryAuth& of, KeptToken& place, std::unique_lock<std::mutex>& held)
          : auth(of), kept(place), lock(held) {
        kept.asked_for = true;
        lock.unlock();
      }
      ~OnTheWay() {
        lock.lock();
        kept.asked_for = false;
        auth.came_.notify_all();
      }
    };
    const OnTheWay on_the_way(*this, kept, lock);
    return AskForToken(*options_.client, question, credentials);
  }

  // A refused token is not used again. False if the next one would be the same.
  bool Drop(const std::vector<std::string>& scopes, const std::string& used) {
    KeptToken& kept = Place(ScopeSet(scopes, *challenge_));
    if (used != Cat("Bearer ", kept.text)) return true;
    if (options_.now() - kept.since < FreshFor(kept.life)) return false;
    kept.text.clear();
    return true;
  }

  const RegistryAuthOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::optional<Credentials> credentials_;  // no value until they were looked for
  std::optional<Challenge> challenge_;      // only set once the credentials are
  std::string fixed_;
  int logins_ = 0;
  using Key = std::tuple<std::string, std::string, std::vector<std::string>>;
  std::map<Key, KeptToken> tokens_;
};

}  // namespace

AuthorizerPtr MakeRegistryAuth(RegistryAuthOptions options) {
  return std::make_shared<RegistryAuth>(std::move(options));
}

}  // namespace moepack::registry
