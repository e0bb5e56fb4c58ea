#include "libshard/remote/s3_refusal.h"

#include "libshard/base/text/text.h"
#include "libshard/remote/s3_listing.h"

namespace moepack::remote {
namespace {

struct S3Failure {
  std::string_view code;
  Code kind;
  const char* expected;
  const char* hint;
};
constexpr S3Failure kS3Failures[] = {
    {"NoSuchBucket", Code::kNotFound, "a bucket, found none of this name",
     "check the spelling and --endpoint"},
    {"NoSuchKey", Code::kNotFound, "an object, found none of this name", "check the spelling"},
    {"AccessDenied", Code::kIo, "access, found it denied",
     "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, of somebody who may list "
     "and read it"},
    {"InvalidAccessKeyId", Code::kIo, "a key that the server knows, found another",
     "check AWS_ACCESS_KEY_ID and --endpoint"},
    {"SignatureDoesNotMatch", Code::kIo, "the signature of this key, found another",
     "check AWS_SECRET_ACCESS_KEY and AWS_REGION"},
    {"ExpiredToken", Code::kIo, "a valid session, found an expired one",
     "log in again for a new AWS_SESSION_TOKEN"},
    {"InvalidToken", Code::kIo, "a session of this key, found another",
     "set AWS_SESSION_TOKEN to the one that came with the key, or unset it"},
    {"RequestTimeTooSkewed", Code::kIo, "the time of the server, found another",
     "set the clock of this machine"},
};

}  // namespace

Error S3Refusal(const HttpReply& reply, const S3Settings& settings, const std::string& name) {
  const std::string region(reply.Field("x-amz-bucket-region"));
  if (!region.empty() && region != settings.region) {
    return {Code::kInvalidArgument,
            Cat(name, ": region: expected ", Shown(region), " where the bucket is, found ",
                settings.region),
            Cat("set AWS_REGION=", ShellWord(region))};
  }
  const std::string code = S3ErrorCode(reply.body);
  for (const S3Failure& known : kS3Failures) {
    if (known.code == code)
      return {known.kind, Cat(name, ": expected ", known.expected), known.hint};
  }
  const bool redirect = reply.status >= 300 && reply.status < 400;
  if (!redirect) return StatusError(name, reply);
  return {Code::kIo,
          Cat(name, ": expected the bucket, found status ", reply.status,
              ": it is in another region than ", settings.region, ", or at another server"),
          "set AWS_REGION to the bucket's region, and --endpoint to its server"};
}

}  // namespace moepack::remote
