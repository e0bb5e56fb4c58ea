#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "runtime-shim/moepack_runtime.h"
#include "tests/runtime-shim/placed_node.h"
#include "tests/runtime-shim/tiny_node.h"

namespace moepack::runtime {
namespace {

using testing::HasSubstr;

class CInterface : public TinyDistribution {
 protected:
  CInterface() {
    moepack_node_options_init(&options_, sizeof options_);
    options_.group = 1;
    options_.threads = 1;
  }
  ~CInterface() override { moepack_node_close(node_); }

  moepack_node* Node() {
    EXPECT_EQ(moepack_node_open(path().c_str(), &options_, &node_), MOEPACK_OK)
        << moepack_last_error();
    return node_;
  }

  std::vector<uint32_t> Tokens(const std::string& text) {
    std::vector<uint32_t> tokens(100);
    size_t count = 0;
    EXPECT_EQ(moepack_tokenize(node_, text.data(), text.size(), tokens.data(), 100, &count),
              MOEPACK_OK)
        << moepack_last_error();
    tokens.resize(count);
    return tokens;
  }

  moepack_node_options options_;
  moepack_node* node_ = nullptr;
};

TEST_F(CInterface, RunsANodeFromTextToText) {
  ASSERT_NE(Node(), nullptr);
  EXPECT_EQ(moepack_node_groups(node_), 3u);
  EXPECT_EQ(moepack_node_vocabulary(node_), 1024u);
  const std::vector<uint32_t> tokens = Tokens("int main(");
  double scores[3] = {};
  size_t count = 0;
  ASSERT_EQ(moepack_probe_score(node_, tokens.data(), tokens.size(), 0, scores, 3, &count),
            MOEPACK_OK);
  EXPECT_EQ(count, 3u);
  EXPECT_GT(scores[2], 0);

  moepack_session* session = nullptr;
  ASSERT_EQ(moepack_session_open(node_, nullptr, &session), MOEPACK_OK);
  ASSERT_EQ(moepack_prefill(session, tokens.data(), tokens.size()), MOEPACK_OK);
  uint32_t token = 5000;
  double logprob = 1;
  ASSERT_EQ(moepack_decode(session, &token, &logprob), MOEPACK_OK);
  EXPECT_LT(token, 1024u);
  EXPECT_LE(logprob, 0);
  EXPECT_EQ(moepack_decode(session, &token, nullptr), MOEPACK_OK);
  moepack_session_close(session);
}

TEST_F(CInterface, TurnsTokensBackIntoText) {
  Node();
  const std::string text = "for (int i = 0;";
  const std::vector<uint32_t> tokens = Tokens(text);
  char back[100];
  size_t count = 0;
  ASSERT_EQ(moepack_detokenize(node_, tokens.data(), tokens.size(), back, 100, &count), MOEPACK_OK);
  EXPECT_EQ(std::string(back, count), text);
}

TEST_F(CInterface, FillsAnArrayAndReturnsTheFullCount) {
  Node();
  const std::vector<uint32_t> tokens = Tokens("some text");
  ASSERT_GE(tokens.size(), 3u);
  std::vector<uint32_t> few(2, 9999);
  size_t count = 0;
  ASSERT_EQ(moepack_tokenize(node_, "some text", 9, few.data(), 1, &count), MOEPACK_OK);
  EXPECT_EQ(count, tokens.size());
  EXPECT_EQ(few, (std::vector<uint32_t>{tokens[0], 9999}));
  ASSERT_EQ(moepack_tokenize(node_, "some text", 9, nullptr, 0, &count), MOEPACK_OK);
  EXPECT_EQ(count, tokens.size());
}

TEST_F(CInterface, ASessionOutlivesTheHandleOfItsNode) {
  moepack_session* session = nullptr;
  ASSERT_EQ(moepack_session_open(Node(), nullptr, &session), MOEPACK_OK);
  moepack_node_close(node_);
  node_ = nullptr;
  const uint32_t tokens[] = {1, 2, 3};
  EXPECT_EQ(moepack_prefill(session, tokens, 3), MOEPACK_OK) << moepack_last_error();
  uint32_t token = 0;
  EXPECT_EQ(moepack_decode(session, &token, nullptr), MOEPACK_OK);
  moepack_session_close(session);
}

TEST_F(CInterface, ErrorsHaveAStatusAndAText) {
  options_.group = 7;
  EXPECT_EQ(moepack_node_open(path().c_str(), &options_, &node_), MOEPACK_INVALID_ARGUMENT);
  EXPECT_THAT(moepack_last_error(), HasSubstr("group"));
  EXPECT_EQ(node_, nullptr);
  options_.group = 0;
  options_.executor = "abacus";
  EXPECT_EQ(moepack_node_open(path().c_str(), &options_, &node_), MOEPACK_INVALID_ARGUMENT);
  EXPECT_THAT(moepack_last_error(), HasSubstr("abacus"));
  options_.executor = "cpu";
  options_.device = 63;
  EXPECT_EQ(moepack_node_open(path().c_str(), &options_, &node_), MOEPACK_UNAVAILABLE);
  EXPECT_EQ(moepack_node_open("/no/such/place", nullptr, &node_), MOEPACK_NOT_FOUND);
  EXPECT_THAT(moepack_last_error(), HasSubstr("/no/such/place"));
  EXPECT_EQ(moepack_node_open("hf://owner/name", nullptr, &node_), MOEPACK_NOT_FOUND);
  EXPECT_THAT(moepack_last_error(), HasSubstr("hf://owner/name: no such file or directory"));
  EXPECT_THAT(moepack_last_error(), HasSubstr("download it first"));
}

TEST_F(CInterface, ASessionStaysUsableAfterErrors) {
  moepack_session_options options;
  moepack_session_options_init(&options, sizeof options);
  options.context = 4;
  moepack_session* session = nullptr;
  ASSERT_EQ(moepack_session_open(Node(), &options, &session), MOEPACK_OK);
  uint32_t token = 0;
  EXPECT_EQ(moepack_decode(session, &token, nullptr), MOEPACK_INVALID_ARGUMENT);
  EXPECT_THAT(moepack_last_error(), HasSubstr("empty session"));
  const uint32_t tokens[] = {1, 2, 3, 4, 5};
  EXPECT_EQ(moepack_prefill(session, tokens, 5), MOEPACK_INVALID_ARGUMENT);
  EXPECT_THAT(moepack_last_error(), HasSubstr("context of 4"));
  EXPECT_EQ(moepack_prefill(session, tokens, 0), MOEPACK_INVALID_ARGUMENT);
  EXPECT_EQ(moepack_prefill(session, tokens, 3), MOEPACK_OK);
  EXPECT_EQ(moepack_decode(session, &token, nullptr), MOEPACK_OK);
  moepack_session_close(session);
}

TEST_F(CInterface, NullPointersAreErrorsExceptWhenClosing) {
  size_t count = 0;
  uint32_t token = 0;
  EXPECT_EQ(moepack_node_open(nullptr, nullptr, &node_), MOEPACK_INVALID_ARGUMENT);
  EXPECT_STREQ(moepack_last_error(), "source: expected a pointer, found NULL");
  EXPECT_EQ(moepack_node_open("x", nullptr, nullptr), MOEPACK_INVALID_ARGUMENT);
  EXPECT_EQ(moepack_tokenize(nullptr, "x", 1, &token, 1, &count), MOEPACK_INVALID_ARGUMENT);
  EXPECT_EQ(moepack_detokenize(nullptr, &token, 1, nullptr, 0, &count), MOEPACK_INVALID_ARGUMENT);
  EXPECT_EQ(moepack_probe_score(nullptr, &token, 1, 0, nullptr, 0, &count),
            MOEPACK_INVALID_ARGUMENT);
  EXPECT_EQ(moepack_session_open(nullptr, nullptr, nullptr), MOEPACK_INVALID_ARGUMENT);
  EXPECT_EQ(moepack_prefill(nullptr, &token, 1), MOEPACK_INVALID_ARGUMENT);
  EXPECT_EQ(moepack_decode(nullptr, &token, nullptr), MOEPACK_INVALID_ARGUMENT);
  EXPECT_EQ(moepack_tokenize(Node(), nullptr, 5, &token, 1, &count), MOEPACK_INVALID_ARGUMENT);
  EXPECT_STREQ(moepack_last_error(), "text: expected a pointer, found NULL");
  EXPECT_EQ(moepack_node_groups(nullptr), 0u);
  EXPECT_EQ(moepack_node_vocabulary(nullptr), 0u);
  EXPECT_EQ(moepack_is_end(nullptr, 0), 0);
  moepack_node_close(nullptr);
  moepack_session_close(nullptr);
}

// A program built with an older header has shorter options, one built with a newer one longer.
TEST_F(CInterface, ReadsOptionsOfOtherVersionsUpToTheirSize) {
  alignas(moepack_node_options) unsigned char bytes[2 * sizeof(moepack_node_options)];
  std::memset(bytes, 0xee, sizeof bytes);
  auto* options = reinterpret_cast<moepack_node_options*>(bytes);
  constexpr size_t kOld = offsetof(moepack_node_options, executor);
  moepack_node_options_init(options, kOld);
  EXPECT_EQ(bytes[kOld], 0xee) << "wrote past the end of the caller's struct";
  options->group = 2;
  ASSERT_EQ(moepack_node_open(path().c_str(), options, &node_), MOEPACK_OK) << moepack_last_error();
  moepack_node_close(node_);
  moepack_node_options_init(options, sizeof bytes);
  EXPECT_EQ(options->group, -1);
  EXPECT_EQ(bytes[sizeof bytes - 1], 0);
  EXPECT_EQ(moepack_node_open(path().c_str(), options, &node_), MOEPACK_OK);
  options->struct_size = 0;
  moepack_node* other = nullptr;
  EXPECT_EQ(moepack_node_open(path().c_str(), options, &other), MOEPACK_INVALID_ARGUMENT);
  EXPECT_THAT(moepack_last_error(), HasSubstr("struct_size"));
}

TEST_F(CInterface, KeepsTheLastErrorPerThread) {
  EXPECT_NE(moepack_node_open(nullptr, nullptr, &node_), MOEPACK_OK);
  std::string other = "?";
  std::thread([&] { other = moepack_last_error(); }).join();
  EXPECT_EQ(other, "");
  EXPECT_STRNE(moepack_last_error(), "");
}

class CPlacer : public PlacedDistribution {
 protected:
  CPlacer() { placement_.struct_size = sizeof placement_; }
  ~CPlacer() override { moepack_placer_close(placer_); }
  moepack_placer* Placer() {
    EXPECT_EQ(moepack_placer_open(path().c_str(), &placer_), MOEPACK_OK) << moepack_last_error();
    return placer_;
  }

  moepack_placer* placer_ = nullptr;
  moepack_placement placement_ = {};
  double scores_[3] = {};
  size_t count_ = 0;
};

TEST_F(CPlacer, PlacesTokensAndTexts) {
  ASSERT_NE(Placer(), nullptr);
  EXPECT_EQ(moepack_placer_groups(placer_), 3u);
  const uint32_t tokens[] = {102, 7};
  ASSERT_EQ(moepack_place_tokens(placer_, tokens, 2, &placement_, scores_, 3, &count_), MOEPACK_OK)
      << moepack_last_error();
  EXPECT_EQ(placement_.group, 2u);
  EXPECT_EQ(placement_.second, 0u);
  EXPECT_EQ(placement_.sure, 1);
  EXPECT_EQ(placement_.tokens, 2u);
  EXPECT_EQ(placement_.margin, 3);
  EXPECT_EQ(placement_.known_share, 0.5);
  EXPECT_EQ(count_, 3u);
  EXPECT_EQ(scores_[2], 2);
  ASSERT_EQ(moepack_place_text(placer_, "int", 3, &placement_, nullptr, 0, &count_), MOEPACK_OK)
      << moepack_last_error();
  EXPECT_GT(placement_.tokens, 0u);
  EXPECT_EQ(count_, 3u);
}

// A program built with an older header has a shorter struct.
TEST_F(CPlacer, WritesNoMoreThanTheCallersStruct) {
  Placer();
  placement_.margin = 77;
  placement_.struct_size = offsetof(moepack_placement, margin);
  const uint32_t token = 101;
  ASSERT_EQ(moepack_place_tokens(placer_, &token, 1, &placement_, nullptr, 0, &count_), MOEPACK_OK);
  EXPECT_EQ(placement_.group, 1u);
  EXPECT_EQ(placement_.margin, 77);
}

TEST_F(CPlacer, ErrorsHaveAStatusAndAText) {
  const uint32_t token = 101;
  EXPECT_EQ(moepack_placer_open(nullptr, &placer_), MOEPACK_INVALID_ARGUMENT);
  EXPECT_STREQ(moepack_last_error(), "distribution: expected a pointer, found NULL");
  EXPECT_EQ(moepack_placer_open("/no/such/place", &placer_), MOEPACK_NOT_FOUND);
  EXPECT_EQ(moepack_placer_open(path().c_str(), nullptr), MOEPACK_INVALID_ARGUMENT);
  EXPECT_EQ(moepack_placer_groups(nullptr), 0u);
  EXPECT_EQ(moepack_place_tokens(nullptr, &token, 1, &placement_, scores_, 3, &count_),
            MOEPACK_INVALID_ARGUMENT);
  EXPECT_STREQ(moepack_last_error(), "placer: expected a pointer, found NULL");
  Placer();
  EXPECT_EQ(moepack_place_tokens(placer_, &token, 1, nullptr, scores_, 3, &count_),
            MOEPACK_INVALID_ARGUMENT);
  EXPECT_EQ(moepack_place_tokens(placer_, &token, 1, &placement_, nullptr, 3, &count_),
            MOEPACK_INVALID_ARGUMENT);
  EXPECT_STREQ(moepack_last_error(), "scores: expected a pointer, found NULL");
  EXPECT_EQ(moepack_place_tokens(placer_, nullptr, 0, &placement_, scores_, 3, &count_),
            MOEPACK_INVALID_ARGUMENT);
  EXPECT_THAT(moepack_last_error(), HasSubstr("at least one token"));
  EXPECT_EQ(moepack_place_text(placer_, nullptr, 3, &placement_, scores_, 3, &count_),
            MOEPACK_INVALID_ARGUMENT);
  placement_.struct_size = 0;
  EXPECT_EQ(moepack_place_tokens(placer_, &token, 1, &placement_, scores_, 3, &count_),
            MOEPACK_INVALID_ARGUMENT);
  EXPECT_THAT(moepack_last_error(), HasSubstr("placement: struct_size: expected"));
}

TEST(CInterfaceVersion, IsThatOfTheHeader) {
  EXPECT_EQ(moepack_abi_version(), static_cast<uint32_t>(MOEPACK_ABI_VERSION));
}

}  // namespace
}  // namespace moepack::runtime
