package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The longest that a test waits for one thing.
const patience = 60 * time.Second

var listening = regexp.MustCompile(`^sluice: envoy listening on (127\.0\.0\.1:\d+)$`)

// lines are what a process writes, one after the other.
type lines struct {
	lock sync.Mutex
	all  []string
	more chan struct{} // closed and made anew with each line
	over bool
}

func (l *lines) read(from io.Reader) {
	scanner := bufio.NewScanner(from)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		l.add(scanner.Text(), false)
	}
	l.add("", true)
}

func (l *lines) add(text string, over bool) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if over {
		l.over = true
	} else {
		l.all = append(l.all, text)
	}
	close(l.more)
	l.more = make(chan struct{})
}

// await returns the first line from number `from` on that fits, and its number.
func (l *lines) await(t *testing.T, from int, what string, fits func(string) bool) (string, int) {
	t.Helper()
	late := time.After(patience)
	for {
		l.lock.Lock()
		all, more, over := l.all, l.more, l.over
		l.lock.Unlock()
		for ; from < len(all); from++ {
			if fits(all[from]) {
				return all[from], from
			}
		}
		if over {
			t.Fatalf("the process ended before %s: %s", what, strings.Join(all, "\n"))
		}
		select {
		case <-more:
		case <-late:
			t.Fatalf("no %s: %s", what, strings.Join(all, "\n"))
		}
	}
}

func (l *lines) with(words ...string) []string {
	l.lock.Lock()
	defer l.lock.Unlock()
	return slices.DeleteFunc(slices.Clone(l.all), func(line string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) })
	})
}

type sluice struct {
	http, debug string
	said        *lines
	process     *os.Process
}

// freePort is outside of those that systems hand out, so that nobody else takes it meanwhile.
func freePort(t *testing.T) string {
	t.Helper()
	for port := 12_000 + os.Getpid()%1_000; port < 15_000; port++ {
		address := fmt.Sprintf("127.0.0.1:%d", port)
		if listener, err := net.Listen("tcp", address); err == nil {
			_ = listener.Close()
			return address
		}
	}
	t.Fatal("no free port")
	return ""
}

// serve runs `sluice envoy` with limits from a control plane until the end of the test, where it has to end cleanly.
func serve(t *testing.T, controlPlane string, environment ...string) *sluice {
	t.Helper()
	binary := os.Getenv("SLUICE_BINARY")
	if binary == "" {
		binary = filepath.Join("..", "..", "..", "..", "build", "release", "sluice")
	}
	s := &sluice{debug: freePort(t), said: &lines{more: make(chan struct{})}}
	command := exec.Command(binary, "envoy")
	// Nothing of the tester's own environment may change what is served.
	command.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "GRPC_HOST=127.0.0.1", "GRPC_PORT=0", "HOST=127.0.0.1", "PORT=0",
		"DEBUG_HOST=127.0.0.1", "DEBUG_PORT=" + s.debug[strings.LastIndexByte(s.debug, ':')+1:], "USE_STATSD=false",
		"SLUICE_ADMIN=off", "CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL=" + controlPlane,
		"CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit", "FORCE_START_WITHOUT_INITIAL_CONFIG=true",
		"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL=200ms"}, environment...)
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stderr = command.Stdout
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	s.process = command.Process
	go s.said.read(output)
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(patience, func() { _ = command.Process.Kill() })
		defer late.Stop()
		s.said.awaitEnd()
		if err := command.Wait(); err != nil {
			t.Errorf("the server ended with %v: %s", err, strings.Join(s.said.all, "\n"))
		}
	})
	_, first := s.said.await(t, 0, "port for gRPC", listening.MatchString)
	line, _ := s.said.await(t, first+1, "port for HTTP", listening.MatchString)
	s.http = listening.FindStringSubmatch(line)[1]
	return s
}

func (l *lines) awaitEnd() {
	for {
		l.lock.Lock()
		more, over := l.more, l.over
		l.lock.Unlock()
		if over {
			return
		}
		<-more
	}
}

// ask returns the overall code of a request for one entry.
func (s *sluice) ask(t *testing.T, domain, key, value string) string {
	t.Helper()
	text := fmt.Sprintf(`{"domain": %q, "descriptors": [{"entries": [{"key": %q, "value": %q}]}]}`, domain, key, value)
	answer, err := http.Post("http://"+s.http+"/json", "application/json", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var told struct{ OverallCode string }
	if err := json.NewDecoder(answer.Body).Decode(&told); err != nil {
		t.Fatal(err)
	}
	return told.OverallCode
}

// limits returns those in force, sorted.
func (s *sluice) limits(t *testing.T) []string {
	t.Helper()
	answer, err := http.Get("http://" + s.debug + "/rlconfig")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(strings.SplitSeq(strings.TrimSuffix(string(text), "\n"), "\n"))
}

// healthy says what /healthcheck does.
func (s *sluice) healthy(t *testing.T) bool {
	t.Helper()
	answer, err := http.Get("http://" + s.http + "/healthcheck")
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// used returns the processor time that it has used.
func (s *sluice) used(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var ticks time.Duration
	for _, field := range fields[11:13] { // of the program and of the system for it
		number, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ticks += time.Duration(number)
	}
	return ticks * 10 * time.Millisecond
}
