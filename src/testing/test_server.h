// TestServer: a real server with a real engine in this process, on a free port, over a toy model
// whose tokens depend on everything that came before.
//
// The model can be slowed down, so that a test can act while answers run. The vocabulary is the 256
// byte tokens and a few more; every text encodes to one token a byte, and a space in front.
#ifndef ASHLAR_TESTING_TEST_SERVER_H_
#define ASHLAR_TESTING_TEST_SERVER_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "engine/engine_thread.h"
#include "serve/server.h"
#include "testing/toy_model.h"

namespace ashlar {

inline constexpr const char* kTestModelName = "toy";

struct TestServerOptions {
  EngineOptions engine;
  ServerOptions server;
  int64_t context = 512;
  TestServerOptions();
};

class TestServer {
 public:
  explicit TestServer(TestServerOptions options = {});
  ~TestServer();

  int64_t port() const { return server_->port(); }
  Server& server() { return *server_; }
  EngineThread& engine() { return *engine_; }
  // Time that each step takes at least, the one that runs included.
  void set_step_time(std::chrono::microseconds time) { model_.step_time = time.count(); }
  // A row with this input token fails.
  void set_poison(int32_t token) { model_.set_poison(token); }
  // Waits until nothing runs and all pages are free; false after a while.
  bool settles();

 private:
  struct PacedModel : ToyModel {
    using ToyModel::ToyModel;
    void forward(Step& step, TensorView logits) override;
    std::atomic<int64_t> step_time = 0;
  };

  PacedModel model_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ChatTemplate> chat_template_;
  std::unique_ptr<EngineThread> engine_;
  std::unique_ptr<Server> server_;
};

// {"model":"toy","prompt":PROMPT,MORE}
std::string completion_body(std::string_view prompt, std::string_view more = {});

}  // namespace ashlar

#endif  // ASHLAR_TESTING_TEST_SERVER_H_
