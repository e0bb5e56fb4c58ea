// Replies of web servers and S3: listings as XML and HTML, and the fields of a range.
#include "libshard/base/files/inside_path.h"
#include "libshard/remote/html_listing.h"
#include "libshard/remote/http/range_answer.h"
#include "libshard/remote/http/url.h"
#include "libshard/remote/s3_listing.h"
#include "tests/fuzz/target.h"

namespace server_answers_target {

constexpr const char* kWhere = "damaged/listing";

std::vector<std::string> Seeds() {
  return {
      "<?xml version=\"1.0\"?><ListBucketResult><Contents><Key>a/b.gguf</Key><Size>12</Size>"
      "<ETag>&quot;x&quot;</ETag></Contents><IsTruncated>true</IsTruncated>"
      "<NextContinuationToken>t</NextContinuationToken></ListBucketResult>",
      "<Error><Code>NoSuchKey</Code><Message>none &amp; nothing</Message></Error>",
      "<html><body><a href=\"../\">..</a><a href='a%20b.gguf'>a b</a><a href=c.json>c</a>"
      "<A HREF=\"https://elsewhere/x\">x</A><a href=\"sub/\">sub</a></body></html>",
      "bytes 0-99/1000", "bytes 5-5/*"};
}

std::string ListingProblem(std::string_view input) {
  const auto page = moepack::remote::ParseUrl("https://host/models/");
  if (!page) return "the address of the test is wrong";
  for (const std::string& name : moepack::remote::FilesOfListing(*page, input)) {
    if (!moepack::StaysBelow(name) || name.find_first_of(std::string_view("/\0", 2)) != name.npos)
      return "a name outside the folder: " + name;
  }
  return "";
}

std::string Check(std::string_view input) {
  using namespace moepack::remote;
  const auto page = ParseS3Page(kWhere, input);
  if (!page) {
    if (const auto problem = fuzz::ErrorProblem(page.error(), kWhere); !problem.empty())
      return problem;
  } else {
    for (const S3Object& object : page->objects)
      if (object.key.empty()) return "an object without a key";
  }
  if (S3ErrorCode(input).size() > input.size()) return "a code that is not in the text";
  if (const auto range = ParseContentRange(input)) {
    if (range->last < range->first) return "a range that ends before it begins";
    if (range->total && range->last >= *range->total) return "a range behind the end";
  }
  return ListingProblem(input);
}

constexpr fuzz::Target kTarget{Check, Seeds, 20'000};

}  // namespace server_answers_target

FUZZ_TARGET(FuzzServerAnswers, server_answers_target::kTarget)
