#include "libshard/remote/s3_listing.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "libshard/base/text/text.h"

namespace moepack::remote {
namespace {

constexpr size_t kMostDepth = 8;

struct XmlEntity {
  std::string_view name, meaning;
};
constexpr XmlEntity kXmlEntities[] = {
    {"amp", "&"}, {"lt", "<"}, {"gt", ">"}, {"quot", "\""}, {"apos", "'"}};

// ASCII only: S3 writes nothing else as numbers.
std::optional<std::string> Character(std::string_view name) {
  for (const XmlEntity& entity : kXmlEntities) {
    if (entity.name == name) return std::string(entity.meaning);
  }
  if (!name.starts_with('#')) return std::nullopt;
  name.remove_prefix(1);
  uint64_t code = 0;
  if (name.starts_with('x') || name.starts_with('X')) {
    if (name.size() < 2 || name.size() > 3) return std::nullopt;
    for (const char c : Lower(name.substr(1))) {
      const size_t digit = std::string_view("0123456789abcdef").find(c);
      if (digit == std::string_view::npos) return std::nullopt;
      code = code * 16 + digit;
    }
  } else {
    code = ParseUint(name).value_or(0);
  }
  if (code == 0 || code > 127) return std::nullopt;
  return std::string(1, static_cast<char>(code));
}

// Calls `leaf` with the path ("ListBucketResult/Contents/Key") and text of every element that has
// no other inside, and `close` with the path of every other. False for anything that is not the XML
// that we read.
class XmlReader {
 public:
  using Leaf = std::function<void(const std::string& path, const std::string& text)>;
  using Close = std::function<void(const std::string& path)>;
  XmlReader(Leaf leaf, Close close) : leaf_(std::move(leaf)), close_(std::move(close)) {}

  bool Read(std::string_view xml) {
    SkipDeclaration(xml);
    while (!xml.empty()) {
      if (xml[0] != '<') {
        const size_t end = std::min(xml.find('<'), xml.size());
        if (!AddText(xml.substr(0, end))) return false;
        xml.remove_prefix(end);
        continue;
      }
      const size_t end = xml.find('>');
      if (end == xml.npos || !Tag(xml.substr(1, end - 1))) return false;
      xml.remove_prefix(end + 1);
    }
    return path_.empty() && done_;
  }

 private:
  static void SkipDeclaration(std::string_view& xml) {
    if (!xml.starts_with("<?xml")) return;
    const size_t end = xml.find("?>");
    if (end != xml.npos) xml.remove_prefix(end + 2);
  }

  bool AddText(std::string_view text) {
    while (!text.empty()) {
      if (text[0] != '&') {
        const size_t end = std::min(text.find('&'), text.size());
        text_ += text.substr(0, end);
        text.remove_prefix(end);
        continue;
      }
      const size_t end = text.find(';');
      if (end == text.npos) return false;
      const auto character = Character(text.substr(1, end - 1));
      if (!character) return false;
      text_ += *character;
      text.remove_prefix(end + 1);
    }
    return !path_.empty() || text_.find_first_not_of(" \t\r\n") == std::string::npos;
  }

  bool Tag(std::string_view tag) {
    if (tag.empty() || tag[0] == '!' || tag[0] == '?') return false;
    if (tag[0] == '/') return End(std::string(tag.substr(1)));
    const bool empty = tag.ends_with('/');
    if (empty) tag.remove_suffix(1);
    const std::string name(tag.substr(0, tag.find_first_of(" \t\r\n")));
    if (name.empty() || done_ || path_.size() >= kMostDepth) return false;
    path_.push_back(name);
    text_.clear();
    is_leaf_ = true;
    return !empty || End(name);
  }

  bool End(const std::string& name) {
    if (path_.empty() || path_.back() != name) return false;
    const std::string path = Join(path_, "/");
    if (is_leaf_) {
      leaf_(path, text_);
    } else {
      close_(path);
    }
    is_leaf_ = false;
    text_.clear();
    path_.pop_back();
    done_ = path_.empty();
    return true;
  }

  Leaf leaf_;
  Close close_;
  std::vector<std::string> path_;
  std::string text_;
  bool is_leaf_ = false, done_ = false;
};

// Gathers objects as their elements close.
struct PageBuilder {
  S3Page page;
  S3Object object;
  std::optional<uint64_t> size;
  std::string truncated;
  bool right = true, is_page = false;

  void Leaf(const std::string& path, const std::string& text) {
    if (path == "ListBucketResult/Contents/Key") object.key = text;
    if (path == "ListBucketResult/Contents/ETag") object.etag = text;
    if (path == "ListBucketResult/Contents/Size") size = ParseUint(text);
    if (path == "ListBucketResult/IsTruncated") truncated = text;
    if (path == "ListBucketResult/NextContinuationToken") page.next = text;
    if (path == "ListBucketResult") is_page = true;
  }
  void Close(const std::string& path) {
    is_page = is_page || path == "ListBucketResult";
    if (path != "ListBucketResult/Contents") return;
    right = right && !object.key.empty() && size.has_value();
    object.size = size.value_or(0);
    page.objects.push_back(std::move(object));
    object = {};
    size.reset();
  }
};

}  // namespace

Result<S3Page> ParseS3Page(const std::string& where, std::string_view xml) {
  PageBuilder builder;
  XmlReader reader([&](const auto& path, const auto& text) { builder.Leaf(path, text); },
                   [&](const auto& path) { builder.Close(path); });
  const bool read = reader.Read(xml) && builder.right && builder.is_page;
  if (!read || (builder.truncated == "true") == builder.page.next.empty()) {
    return Error{Code::kCorrupt,
                 Cat(where, ": expected a ListBucketResult, found ", Quoted(xml.substr(0, 80))),
                 "the address is that of no S3 bucket: check --endpoint"};
  }
  return std::move(builder.page);
}

std::string S3ErrorCode(std::string_view xml) {
  std::string code;
  XmlReader reader(
      [&](const std::string& path, const std::string& text) {
        if (path == "Error/Code") code = text;
      },
      [](const std::string&) {});
  return reader.Read(xml) ? code : "";
}

}  // namespace moepack::remote
