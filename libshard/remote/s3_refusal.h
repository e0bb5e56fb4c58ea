// What S3 reports for a failure, and what to do about it.
#pragma once

#include <string>

#include "libshard/base/result.h"
#include "libshard/remote/s3_settings.h"

namespace moepack::remote {

// The error for an answer outside 200 to 299; `name` is what was requested, `settings` how.
Error S3Refusal(const HttpReply& reply, const S3Settings& settings, const std::string& name);

}  // namespace moepack::remote
