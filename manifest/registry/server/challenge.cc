#include "manifest/registry/server/challenge.h"

#include <optional>

#include "libshard/base/text/text.h"

namespace moepack::registry {
namespace {

constexpr size_t kMostChallenges = 16;
constexpr size_t kMostParameters = 32;

bool IsAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// RFC 9110, 5.6.2.
bool IsTokenCharacter(char c) {
  return IsAlphanumeric(c) || std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

// Parses a field from left to right.
class ChallengeReader {
 public:
  explicit ChallengeReader(std::string_view text) : text_(text) {}

  // No value at the end, and if no challenge begins here.
  std::optional<Challenge> Next() {
    SkipBlanks(true);
    const std::string_view scheme = Token();
    if (scheme.empty()) return std::nullopt;
    Challenge challenge;
    challenge.name = scheme;
    const std::string lower = Lower(scheme);
    if (lower == "basic") challenge.scheme = Challenge::Scheme::kBasic;
    if (lower == "bearer") challenge.scheme = Challenge::Scheme::kBearer;
    SkipToken68();
    for (size_t count = 0; count < kMostParameters && TakeParameter(challenge);) ++count;
    return challenge;
  }

 private:
  bool AtEnd() const { return at_ == text_.size(); }
  void SkipBlanks(bool commas) {
    while (!AtEnd() && (text_[at_] == ' ' || text_[at_] == '\t' || (commas && text_[at_] == ',')))
      ++at_;
  }
  std::string_view Token() {
    const size_t start = at_;
    while (!AtEnd() && IsTokenCharacter(text_[at_])) ++at_;
    return text_.substr(start, at_ - start);
  }

  // "Negotiate dG9rZW4=": one word instead of parameters.
  void SkipToken68() {
    const size_t start = at_;
    SkipBlanks(false);
    while (!AtEnd() && (IsAlphanumeric(text_[at_]) ||
                        std::string_view("-._~+/").find(text_[at_]) != std::string_view::npos))
      ++at_;
    while (!AtEnd() && text_[at_] == '=') ++at_;
    SkipBlanks(false);
    if (!AtEnd() && text_[at_] != ',') at_ = start;
  }

  // False, without consuming anything, if no parameter begins here: at the end, and at the next
  // scheme. Nothing is read after a corrupt one.
  bool TakeParameter(Challenge& challenge) {
    const size_t start = at_;
    SkipBlanks(true);
    const std::string name = Lower(Token());
    SkipBlanks(false);
    std::optional<std::string> value;
    if (!name.empty() && !AtEnd() && text_[at_] == '=') {
      ++at_;
      SkipBlanks(false);
      value = Value();
      if (!value) {
        at_ = text_.size();
        return false;
      }
    }
    if (!value) {
      at_ = start;
      return false;
    }
    std::string* field = nullptr;
    if (name == "realm") field = &challenge.realm;
    if (name == "service") field = &challenge.service;
    if (name == "scope") field = &challenge.scope;
    if (field != nullptr && field->empty()) *field = *std::move(value);
    return true;
  }

  // Unquoted values may contain more than the standard allows: some servers send bare addresses.
  std::optional<std::string> Value() {
    if (!AtEnd() && text_[at_] == '"') return QuotedValue();
    const size_t start = at_;
    while (!AtEnd() && text_[at_] > ' ' && text_[at_] < 127 && text_[at_] != ',' &&
           text_[at_] != '"')
      ++at_;
    if (at_ == start) return std::nullopt;
    return std::string(text_.substr(start, at_ - start));
  }
  // No value if the closing quote is missing.
  std::optional<std::string> QuotedValue() {
    std::string value;
    for (++at_; !AtEnd() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      value += text_[at_];
    }
    if (AtEnd()) return std::nullopt;
    ++at_;
    return value;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::vector<Challenge> ParseChallenges(std::string_view text) {
  std::vector<Challenge> challenges;
  ChallengeReader reader(text);
  while (challenges.size() < kMostChallenges) {
    std::optional<Challenge> challenge = reader.Next();
    if (!challenge) break;
    challenges.push_back(*std::move(challenge));
  }
  return challenges;
}

std::vector<Challenge> ChallengesOf(const remote::HttpFields& fields) {
  std::vector<Challenge> challenges;
  for (const auto& [name, value] : fields) {
    if (name != "www-authenticate") continue;
    for (Challenge& challenge : ParseChallenges(value)) {
      if (challenges.size() < kMostChallenges) challenges.push_back(std::move(challenge));
    }
  }
  return challenges;
}

}  // namespace moepack::registry
