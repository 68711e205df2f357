package http

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The longest that a test may take, or a program until it listens or has ended.
const patience = 60 * time.Second

var example = filepath.Join("..", "..", "..", "..", "examples", "go")

// A program that says on which port it listens.
type program struct {
	port    string
	process *os.Process
	ended   chan error
}

// run starts a command until the end of the test; `listening` finds the port in the line that has it.
func run(t *testing.T, command *exec.Cmd, listening string) *program {
	t.Helper()
	command.Env = append(command.Env, "PATH="+os.Getenv("PATH")) // nothing else of the tester's own environment
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stdout, command.Stderr = writer, writer
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	_ = writer.Close()
	p := &program{process: command.Process, ended: make(chan error, 1)}
	ready := make(chan string, 1)
	var said strings.Builder
	var lock sync.Mutex
	go func() {
		pattern := regexp.MustCompile(listening)
		lines := bufio.NewScanner(reader)
		for lines.Scan() {
			lock.Lock()
			said.WriteString(lines.Text() + "\n")
			lock.Unlock()
			if found := pattern.FindStringSubmatch(lines.Text()); found != nil {
				ready <- found[1]
			}
		}
		p.ended <- command.Wait()
	}()
	t.Cleanup(func() {
		p.stop(t)
		if t.Failed() {
			lock.Lock()
			defer lock.Unlock()
			t.Log(said.String())
		}
	})
	select {
	case p.port = <-ready:
		return p
	case err := <-p.ended:
		p.ended <- err
		t.Fatalf("%s ended at once: %v", command.Path, err)
	case <-time.After(patience):
		t.Fatalf("%s does not listen", command.Path)
	}
	panic("not reached")
}

// stop asks it to end and waits for it; once it has ended, it does nothing. Returns how it ended.
func (p *program) stop(t *testing.T) error {
	t.Helper()
	_ = p.process.Signal(syscall.SIGCONT)
	_ = p.process.Signal(syscall.SIGTERM)
	select {
	case err := <-p.ended:
		p.ended <- err
		return err
	case <-time.After(patience):
		_ = p.process.Kill()
		t.Error("it did not end")
		return nil
	}
}

// hold has it stand still, so that what clients send waits in its sockets.
func (p *program) hold(t *testing.T) {
	t.Helper()
	if err := p.process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		if fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:])); fields[0] == "T" {
			return
		}
		if time.Now().After(end) {
			t.Fatal("it does not stand still")
		}
	}
}

// serve runs sluice by the example's sluice.yaml on `port` until the end of the test, where it has to end cleanly.
func serve(t *testing.T, port string) *program {
	t.Helper()
	binary := os.Getenv("SLUICE_BINARY")
	if binary == "" {
		binary = filepath.Join("..", "..", "..", "..", "build", "release", "sluice")
	}
	config, err := os.ReadFile(filepath.Join(example, "sluice.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "sluice.yaml")
	text := strings.ReplaceAll(string(config), "127.0.0.1:8390", "127.0.0.1:"+port)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	server := run(t, exec.Command(binary, "serve", "--config", path, "--admin", "off"), `^sluice: http listening on .*:(\d+)$`)
	t.Cleanup(func() {
		if err := server.stop(t); err != nil {
			t.Errorf("sluice ended with %v", err)
		}
	})
	return server
}
