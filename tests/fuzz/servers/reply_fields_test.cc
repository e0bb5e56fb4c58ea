// Header fields of replies that decide where a client goes next: Location, Link, Range, RateLimit.
#include "libshard/base/text/text.h"
#include "libshard/remote/http/retry.h"
#include "libshard/remote/http/url.h"
#include "manifest/registry/server/chunked_upload.h"
#include "tests/fuzz/target.h"

namespace reply_fields_target {

using moepack::Cat;
using moepack::remote::Url;

std::vector<std::string> Seeds() {
  return {"https://other.example:8443/v2/blobs/1?digest=x#f",
          "/v2/a/../b/./c?x=1",
          "//host.example/a",
          "?only=query",
          "next",
          "0-99",
          "bytes=0-99",
          "<https://host.example/list?last=x>; rel=\"next\"",
          "<first>; rel=\"first\", <second>; rel=\"next\"",
          "\"api\";r=0;t=12"};
}

std::vector<std::string> Refused() { return {"https://", "/a b", "ftp://host/", "//", "1-9\n"}; }

moepack::Result<Url> Locate(std::string_view location) {
  static const Url base = moepack::remote::ParseUrl("https://host.example/v2/u/1?s=2").value();
  return ResolveLocation(base, location);
}

std::string LocationProblem(std::string_view input) {
  const auto url = Locate(input);
  if (!url) return url.error().message.empty() ? "an error without words" : "";
  const std::string text = url->Text();
  if (!url->path.starts_with('/') || text.find_first_of(" \r\n#") != text.npos)
    return "no address: " + text;
  const std::string path = url->path + "/";
  if (path.find("/../") != path.npos || path.find("/./") != path.npos) return "dots in " + text;
  const auto again = Locate(text);
  return again && again->Text() == text ? "" : "another address after writing: " + text;
}

std::string RangeProblem(std::string_view input) {
  constexpr uint64_t kBegin = 10, kEnd = 100;
  for (const bool stays : {false, true}) {
    const auto next = moepack::registry::NextOffset(kBegin, kEnd, input, stays);
    if (next && (*next <= kBegin || *next > kEnd)) return Cat("continues at ", *next);
  }
  const auto last = moepack::registry::RangeEnd(input);
  return !last || input.find_first_of("0123456789") != input.npos ? "" : "an end from no digit";
}

std::string Check(std::string_view input) {
  if (std::string problem = LocationProblem(input); !problem.empty()) return problem;
  if (std::string problem = RangeProblem(input); !problem.empty()) return problem;
  const auto page = moepack::remote::NextPage(input);
  if (page && input.find(Cat("<", *page, ">")) == input.npos) return "a page that is not there";
  const auto left = moepack::remote::RequestsLeftOf({{"ratelimit", std::string(input)}});
  return left && !(left->window.count() >= 0) ? "a window of less than no time" : "";
}

bool Accepts(std::string_view input) {
  return Locate(input).has_value() || moepack::remote::NextPage(input).has_value();
}

constexpr fuzz::Target kTarget{
    .check = Check, .seeds = Seeds, .iterations = 20'000, .accepts = Accepts, .refused = Refused};

}  // namespace reply_fields_target

FUZZ_TARGET(FuzzReplyFields, reply_fields_target::kTarget)
