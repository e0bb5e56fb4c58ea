// How to reach S3 and similar servers, from the variables and files that Amazon's own client reads
// (AWS SDKs and Tools Reference Guide, "Settings reference").
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "libshard/base/result.h"
#include "libshard/remote/http/http_client.h"

namespace moepack::remote {

struct S3Settings {
  std::string region = "us-east-1";
  // "" for Amazon's own. Otherwise buckets are part of the path, not of the host.
  std::string endpoint;
  std::optional<AwsSignature> signature;  // no value: anonymous
};

// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_DEFAULT_REGION,
// AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL; what they leave open is taken from the profile AWS_PROFILE
// of ~/.aws/credentials and ~/.aws/config (AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE).
// `endpoint` is what the user gave, or "". Errors: kInvalidArgument for half of a key or a missing
// profile, kUnsupported for a profile or an environment that gets its keys from elsewhere.
Result<S3Settings> S3SettingsFromEnvironment(const std::string& endpoint);

// "eu-west-1": what may become part of a host's name and does not lead elsewhere.
bool IsS3Region(std::string_view text);

// "s3://bucket/prefix".
struct S3Name {
  std::string bucket, key;  // no '/' at either end of the key

  std::string Text() const { return "s3://" + bucket + (key.empty() ? "" : "/" + key); }
};
// `text` comes without "s3://". kInvalidArgument if it does not name a bucket.
Result<S3Name> ParseS3Name(std::string_view text);

// Where to request an object or, with "", the bucket itself.
Result<Url> S3Url(const S3Settings& settings, const std::string& bucket, const std::string& key);

}  // namespace moepack::remote
