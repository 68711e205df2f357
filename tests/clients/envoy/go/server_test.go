package envoy

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The longest that a test may take, or a server until it listens or has ended.
const patience = 120 * time.Second

var listening = regexp.MustCompile(`^sluice: envoy listening on (127\.0\.0\.1:\d+)$`)

type server struct {
	address string // of gRPC
	process *os.Process
	ended   chan error
}

// start runs `sluice envoy` on free ports, by limits.yaml, until the end of the test, where it has to end cleanly.
func start(t *testing.T) *server {
	t.Helper()
	binary := os.Getenv("SLUICE_BINARY")
	if binary == "" {
		binary = filepath.Join("..", "..", "..", "..", "build", "release", "sluice")
	}
	limits, err := os.ReadFile(filepath.Join("..", "limits.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "limits.yaml"), limits, 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(binary, "envoy", folder)
	// Nothing of the tester's own environment may change what is served.
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "GRPC_HOST=127.0.0.1", "GRPC_PORT=0", "HOST=127.0.0.1", "PORT=0"}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}

	ready := make(chan string, 2)
	s := &server{process: command.Process, ended: make(chan error, 1)}
	go func() {
		lines := bufio.NewScanner(output)
		for lines.Scan() {
			if found := listening.FindStringSubmatch(lines.Text()); found != nil {
				ready <- found[1] // gRPC's, which it names first
			}
		}
		s.ended <- command.Wait()
	}()
	t.Cleanup(func() { s.stop(t) })
	select {
	case s.address = <-ready:
		return s
	case err := <-s.ended:
		s.ended <- err
		t.Fatalf("the server ended at once: %v", err)
	case <-time.After(patience):
		t.Fatal("the server does not listen")
	}
	panic("not reached")
}

// stop asks the server to end and waits for it; once it has ended, it does nothing.
func (s *server) stop(t *testing.T) {
	t.Helper()
	_ = s.process.Signal(syscall.SIGTERM)
	select {
	case err := <-s.ended:
		if err != nil {
			t.Errorf("the server ended with %v", err)
		}
		s.ended <- nil
	case <-time.After(patience):
		_ = s.process.Kill()
		t.Error("the server did not end")
	}
}

// held runs work while the process stands still, so that what clients send waits in its sockets.
func (s *server) held(t *testing.T, work func()) {
	t.Helper()
	if err := s.process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.process.Signal(syscall.SIGCONT) }()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		if fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:])); fields[0] == "T" {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the server does not stand still")
		}
	}
	work()
}
