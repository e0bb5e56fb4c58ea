// What S3 says of a failure, and what to do about it.
#pragma once

#include <string>

#include "libshard/base/result.h"
#include "libshard/remote/s3_settings.h"

namespace moepack::remote {

// The error for an answer that is none of 200 to 299; `name` is what was asked for, `settings` how.
Error S3Refusal(const HttpReply& reply, const S3Settings& settings, const std::string& name);

}  // namespace moepack::remote
