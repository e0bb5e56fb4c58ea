#include "libshard/remote/s3_listing.h"

#include <optional>
#include <pugixml.hpp>

#include "libshard/base/text/text.h"

namespace moepack::remote {
namespace {

// False for what is not well-formed. Expands no entity but the five of XML and numbers.
bool ReadXml(std::string_view xml, pugi::xml_document& document) {
  return document.load_buffer(xml.data(), xml.size(),
                              pugi::parse_default | pugi::parse_ws_pcdata_single,
                              pugi::encoding_utf8);
}

std::optional<S3Page> PageOf(const pugi::xml_node& list) {
  S3Page page;
  for (const pugi::xml_node& contents : list.children("Contents")) {
    const auto size = ParseUint(contents.child_value("Size"));
    S3Object object{contents.child_value("Key"), contents.child_value("ETag"), size.value_or(0)};
    if (object.key.empty() || !size) return std::nullopt;
    page.objects.push_back(std::move(object));
  }
  page.next = list.child_value("NextContinuationToken");
  const bool truncated = std::string_view(list.child_value("IsTruncated")) == "true";
  if (!list || truncated == page.next.empty()) return std::nullopt;
  return page;
}

}  // namespace

Result<S3Page> ParseS3Page(const std::string& where, std::string_view xml) {
  pugi::xml_document document;
  std::optional<S3Page> page;
  if (ReadXml(xml, document)) page = PageOf(document.child("ListBucketResult"));
  if (page) return *std::move(page);
  return Error{Code::kCorrupt,
               Cat(where, ": expected a ListBucketResult, found ", Quoted(xml.substr(0, 80))),
               "the address is that of no S3 bucket: check --endpoint"};
}

std::string S3ErrorCode(std::string_view xml) {
  pugi::xml_document document;
  return ReadXml(xml, document) ? document.child("Error").child_value("Code") : "";
}

}  // namespace moepack::remote
