package resp

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"
)

// The longest that a test may take, or a server until it listens or has ended.
const patience = 60 * time.Second

var listening = regexp.MustCompile(`^sluice: resp listening on (127\.0\.0\.1:\d+)$`)

// start runs `sluice resp` on a free port until the end of the test, where it has to end cleanly. It returns the
// address that it says it listens on, and a context that ends with the patience.
func start(t *testing.T) (string, context.Context) {
	t.Helper()
	binary := os.Getenv("SLUICE_BINARY")
	if binary == "" {
		binary = filepath.Join("..", "..", "..", "..", "build", "release", "sluice")
	}
	command := exec.Command(binary, "resp", "--port", "0")
	// Nothing of the tester's own environment may change what is served.
	command.Env = []string{"PATH=" + os.Getenv("PATH")}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}

	ready := make(chan string, 1)
	ended := make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(output)
		for lines.Scan() {
			if found := listening.FindStringSubmatch(lines.Text()); found != nil {
				ready <- found[1]
			}
		}
		ended <- command.Wait()
	}()
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the server ended with %v", err)
			}
		case <-time.After(patience):
			_ = command.Process.Kill()
			t.Error("the server did not end")
		}
	})

	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	select {
	case address := <-ready:
		return address, ctx
	case err := <-ended:
		ended <- err
		t.Fatalf("the server ended at once: %v", err)
	case <-ctx.Done():
		t.Fatal("the server does not listen")
	}
	panic("not reached")
}
