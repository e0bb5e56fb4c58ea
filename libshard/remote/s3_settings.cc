#include "libshard/remote/s3_settings.h"

#include <algorithm>
#include <map>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/file.h"
#include "libshard/base/text/text.h"
#include "libshard/remote/http/http_settings.h"

namespace moepack::remote {
namespace {

constexpr uint64_t kMostProfileFile = 1u << 20;

using Profile = std::map<std::string, std::string>;

std::string Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == text.npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t\r") - first + 1));
}

// Adds the keys of one section of a file of "[section]" and "key = value"; false if there is no
// such section.
bool AddSection(std::string_view text, const std::string& section, Profile& out) {
  bool inside = false, found = false;
  for (const std::string& line : Split(text, '\n')) {
    const std::string words = Trim(line);
    if (words.empty() || words[0] == '#' || words[0] == ';') continue;
    if (words[0] == '[') {
      inside = words == Cat("[", section, "]");
      found = found || inside;
      continue;
    }
    const size_t equals = words.find('=');
    if (!inside || equals == words.npos) continue;
    out.emplace(Lower(Trim(words.substr(0, equals))), Trim(words.substr(equals + 1)));
  }
  return found;
}

// A missing file has no sections; one that cannot be read is an error.
Result<bool> AddFromFile(const char* variable, const char* usual, const std::string& section,
                         Profile& out) {
  std::string path = Environment(variable);
  if (path.empty()) path = Cat(Environment("HOME"), "/.aws/", usual);
  SHARD_TRY(const bool there, IsThere(path));
  if (!there) return false;
  SHARD_TRY(const std::string text, ReadTextFile(path, kMostProfileFile));
  return AddSection(text, section, out);
}

Result<Profile> ReadProfile() {
  const std::string wanted = Environment("AWS_PROFILE");
  const std::string name = wanted.empty() ? "default" : wanted;
  Profile profile;
  SHARD_TRY(const bool keys,
            AddFromFile("AWS_SHARED_CREDENTIALS_FILE", "credentials", name, profile));
  const std::string section = name == "default" ? name : Cat("profile ", name);
  SHARD_TRY(const bool config, AddFromFile("AWS_CONFIG_FILE", "config", section, profile));
  if (wanted.empty() || keys || config) return profile;
  return Error{Code::kInvalidArgument,
               Cat("AWS_PROFILE: expected a profile of ~/.aws/credentials or ~/.aws/config, found ",
                   Quoted(wanted))};
}

std::string Either(const char* variable, const Profile& profile, const char* key) {
  std::string value = Environment(variable);
  if (!value.empty()) return value;
  const auto found = profile.find(key);
  return found == profile.end() ? "" : found->second;
}

Error KeysFromElsewhere(const std::string& found) {
  return {Code::kUnsupported,
          Cat("keys of S3: expected AWS_ACCESS_KEY_ID or aws_access_key_id, found ", found),
          "run `eval \"$(aws configure export-credentials --format env)\"` first, or unset it for "
          "a bucket that anybody may read"};
}

// Sources of keys that Amazon's client tries before a profile's own keys, and those it tries after
// them.
constexpr const char* kBeforeKeys[] = {"role_arn", "web_identity_token_file", "sso_session",
                                       "sso_start_url"};
constexpr const char* kBehindKeys[] = {"credential_process", "login_session"};
constexpr const char* kElsewhere[] = {"AWS_WEB_IDENTITY_TOKEN_FILE",
                                      "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                                      "AWS_CONTAINER_CREDENTIALS_FULL_URI"};

// kUnsupported if another service has to be asked for the keys: without them, requests would be
// anonymous or made with the wrong keys.
Status CheckKeysAreThere(const Profile& profile) {
  for (const char* key : kBeforeKeys) {
    if (profile.contains(key)) return KeysFromElsewhere(Cat(key, " in the profile"));
  }
  if (profile.contains("aws_access_key_id")) return Ok();
  for (const char* key : kBehindKeys) {
    if (profile.contains(key)) return KeysFromElsewhere(Cat(key, " in the profile"));
  }
  for (const char* variable : kElsewhere) {
    if (!Environment(variable).empty()) return KeysFromElsewhere(variable);
  }
  return Ok();
}

Status ReadKeys(const Profile& profile, S3Settings& settings) {
  // Keys of the environment and of a profile are never mixed.
  const bool from_environment = !Environment("AWS_ACCESS_KEY_ID").empty();
  const Profile none;
  const Profile& from = from_environment ? none : profile;
  if (!from_environment) {
    SHARD_CHECK(CheckKeysAreThere(profile));
  }
  AwsSignature signature;
  signature.region = settings.region;
  signature.key = Either("AWS_ACCESS_KEY_ID", from, "aws_access_key_id");
  if (signature.key.empty()) return Ok();
  signature.secret = Either("AWS_SECRET_ACCESS_KEY", from, "aws_secret_access_key");
  signature.session_token = Either("AWS_SESSION_TOKEN", from, "aws_session_token");
  if (signature.secret.empty()) {
    return Error{Code::kInvalidArgument,
                 "AWS_SECRET_ACCESS_KEY: expected the secret of AWS_ACCESS_KEY_ID, found none"};
  }
  settings.signature = std::move(signature);
  return Ok();
}

}  // namespace

Result<S3Settings> S3SettingsFromEnvironment(const std::string& endpoint) {
  SHARD_TRY(const Profile profile, ReadProfile());
  S3Settings settings;
  std::string region = Environment("AWS_REGION");
  if (region.empty()) region = Either("AWS_DEFAULT_REGION", profile, "region");
  if (!region.empty()) settings.region = region;
  settings.endpoint = endpoint;
  if (endpoint.empty()) settings.endpoint = Environment("AWS_ENDPOINT_URL_S3");
  if (settings.endpoint.empty())
    settings.endpoint = Either("AWS_ENDPOINT_URL", profile, "endpoint_url");
  SHARD_CHECK(ReadKeys(profile, settings));
  return settings;
}

bool IsS3Region(std::string_view text) {
  constexpr size_t kMostRegion = 32;
  return !text.empty() && text.size() <= kMostRegion &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == text.npos;
}

Result<S3Name> ParseS3Name(std::string_view text) {
  S3Name name;
  const size_t slash = std::min(text.find('/'), text.size());
  name.bucket = text.substr(0, slash);
  std::string_view key = text.substr(slash);
  while (key.starts_with('/')) key.remove_prefix(1);
  while (key.ends_with('/')) key.remove_suffix(1);
  name.key = key;
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  };
  if (!name.bucket.empty() && std::all_of(name.bucket.begin(), name.bucket.end(), allowed))
    return name;
  return Error{Code::kInvalidArgument, Cat("s3://: expected bucket/prefix, found ", Quoted(text))};
}

Result<Url> S3Url(const S3Settings& settings, const std::string& bucket, const std::string& key) {
  const bool own = settings.endpoint.empty();
  // A bucket with dots has no certificate for a host of its own.
  const bool in_host = own && bucket.find('.') == std::string::npos;
  const std::string host = Cat("s3.", settings.region, ".amazonaws.com");
  const std::string base = !own      ? settings.endpoint
                           : in_host ? Cat("https://", bucket, ".", host)
                                     : Cat("https://", host);
  Result<Url> parsed = ParseUrl(base);
  if (!parsed) return Error(parsed.error()).Within("--endpoint");
  Url url = *std::move(parsed);
  while (url.path.ends_with('/')) url.path.pop_back();
  if (!in_host) url.path += Cat("/", bucket);
  if (!key.empty() || url.path.empty()) url.path += Cat("/", EncodePath(key));
  url.query.clear();
  return url;
}

}  // namespace moepack::remote
