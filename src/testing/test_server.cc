// Puts the parts together as apps/ashlar/serve.cc does.
#include "testing/test_server.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/check.h"
#include "testing/test_vocabulary.h"

namespace ashlar {

namespace {

constexpr int64_t kDecodable = 259;
constexpr const char* kTemplate =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    "{% if loud is defined %}!{% endif %}{% if add_generation_prompt %}<assistant>{% endif %}";

}  // namespace

TestServerOptions::TestServerOptions() {
  engine.max_batch = 16;
  engine.step_rows = 128;
  server.port = 0;
  server.loops = 2;
}

void TestServer::PacedModel::forward(Step& step, TensorView logits) {
  using std::chrono::microseconds;
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    const auto left = microseconds(step_time) - (std::chrono::steady_clock::now() - start);
    if (left.count() <= 0) break;
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(left, microseconds(2000)));
  }
  ToyModel::forward(step, logits);
}

TestServer::TestServer(TestServerOptions options)
    : model_(kDecodable + 5, kDecodable, options.context), device_(new_cpu_device(1)) {
  TestVocabulary vocabulary = sentencepiece_vocabulary();
  tokenizer_ = std::make_unique<Tokenizer>(*Tokenizer::from_gguf(vocabulary.view("llama")));
  chat_template_ = std::make_unique<ChatTemplate>(*ChatTemplate::compile(kTemplate));
  if (options.engine.kv_positions == 0) options.engine.kv_positions = 16 * options.context;
  const EngineText text{tokenizer_.get(), {2}};
  auto engine = Engine::create(model_, *device_, text, options.engine);
  CHECK(engine.has_value());
  engine_ = *EngineThread::start(std::move(*engine));
  ServedModel served;
  served.names = {kTestModelName, "other/name"};
  served.tokenizer = *tokenizer_;
  served.chat_template = *chat_template_;
  auto server = Server::start(*engine_, std::move(served), options.server, "test");
  CHECK(server.has_value());
  server_ = std::move(*server);
}

TestServer::~TestServer() {
  model_.step_time = 0;
  server_->stop();
  engine_->stop();
}

bool TestServer::settles() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (std::chrono::steady_clock::now() < end) {
    const EngineStats stats = engine_->stats();
    if (stats.running + stats.waiting == 0 && stats.pages_free == stats.pages_total &&
        server_->exchanges() == 0) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

std::string completion_body(std::string_view prompt, std::string_view more) {
  return fmt::format(R"({{"model":"{}","prompt":{}{}{}}})", kTestModelName,
                     nlohmann::json(prompt).dump(), more.empty() ? "" : ",", more);
}

}  // namespace ashlar
