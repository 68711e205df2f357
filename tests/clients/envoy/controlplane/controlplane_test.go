package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// With this variable the test program is the control plane.
const itself = "SLUICE_TEST_CONTROL_PLANE"

func TestMain(m *testing.M) {
	if os.Getenv(itself) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// A plane is the control plane as a process of its own.
type plane struct {
	address string
	command *exec.Cmd
	in      io.WriteCloser
	events  *lines
	done    int // the events before this one are known
}

// startPlane starts one that lives until the end of the test, or until it is killed.
func startPlane(t *testing.T, address string, arguments ...string) *plane {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &plane{events: &lines{more: make(chan struct{})}}
	p.command = exec.Command(program, append([]string{"-listen", address}, arguments...)...)
	p.command.Env = append(os.Environ(), itself+"=1")
	p.command.Stderr = os.Stderr
	if p.in, err = p.command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go p.events.read(out)
	t.Cleanup(p.kill)
	p.address = p.await(t, "listening").Address
	return p
}

func (p *plane) kill() {
	if p.command == nil {
		return
	}
	_ = p.command.Process.Kill()
	p.events.awaitEnd()
	_ = p.command.Wait()
	p.command = nil
}

// await returns the next event of a kind; those before it are passed over.
func (p *plane) await(t *testing.T, what string) event {
	t.Helper()
	var found event
	_, at := p.events.await(t, p.done, what, func(line string) bool {
		found = event{}
		return json.Unmarshal([]byte(line), &found) == nil && found.What == what
	})
	p.done = at + 1
	return found
}

// taken waits until a version was taken; returns when it was sent, and how many refusals there were meanwhile.
func (p *plane) taken(t *testing.T, version string) (sent time.Time, at time.Time, refusals int) {
	t.Helper()
	for {
		var e event
		_, number := p.events.await(t, p.done, "taken "+version, func(line string) bool {
			e = event{}
			return json.Unmarshal([]byte(line), &e) == nil
		})
		p.done = number + 1
		switch {
		case e.What == "sent" && e.Version == version:
			sent = e.At
		case e.What == "recv" && e.Refusal != "":
			refusals++
		case e.What == "recv" && e.Version == version:
			return sent, e.At, refusals
		}
	}
}

func (p *plane) tell(t *testing.T, command any) {
	t.Helper()
	text, err := json.Marshal(command)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.in.Write(append(text, '\n')); err != nil {
		t.Fatal(err)
	}
}

type object = map[string]any

func (p *plane) set(t *testing.T, version string, resources ...object) {
	t.Helper()
	if resources == nil {
		resources = []object{}
	}
	p.tell(t, object{"set": version, "resources": resources})
}

// limit has one descriptor, k=v, with so many requests a day.
func limit(domain string, requests int) object {
	return object{"name": domain, "domain": domain, "descriptors": []object{{
		"key": "k", "value": "v", "rate_limit": object{"unit": "DAY", "requests_per_unit": requests}}}}
}

func line(domain string, requests int) string {
	return fmt.Sprintf("%s.k_v: unit=DAY requests_per_unit=%d, shadow_mode: false, quota_mode: false", domain, requests)
}

func (s *sluice) mustHave(t *testing.T, wanted ...string) {
	t.Helper()
	if wanted == nil {
		wanted = []string{""}
	}
	if found := s.limits(t); !slices.Equal(found, wanted) {
		t.Fatalf("limits in force: %q, not %q", found, wanted)
	}
}

func TestLimitsComeChangeAndGo(t *testing.T) {
	p := startPlane(t, "127.0.0.1:0")
	s := serve(t, p.address)
	if first := p.await(t, "recv"); first.Node != "envoy-ratelimit" || first.Version != "" || first.Nonce != "" {
		t.Fatalf("the first request: %+v", first)
	}
	for _, step := range []struct {
		version   string
		resources []object
		lines     []string
	}{
		{"1", []object{limit("a", 5)}, []string{line("a", 5)}},
		{"2", []object{limit("a", 3)}, []string{line("a", 3)}},
		{"3", []object{limit("a", 3), limit("b", 7)}, []string{line("a", 3), line("b", 7)}},
		{"4", []object{limit("b", 7)}, []string{line("b", 7)}},
		{"5", nil, nil},
		{"6", []object{limit("a", 1)}, []string{line("a", 1)}},
	} {
		p.set(t, step.version, step.resources...)
		p.taken(t, step.version)
		s.mustHave(t, step.lines...)
	}
	if codes := []string{s.ask(t, "a", "k", "v"), s.ask(t, "a", "k", "v")}; !slices.Equal(codes, []string{"OK", "OVER_LIMIT"}) {
		t.Fatal(codes)
	}
}

func TestEachVersionIsAcknowledgedOnce(t *testing.T) {
	p := startPlane(t, "127.0.0.1:0")
	p.set(t, "1", limit("a", 5))
	serve(t, p.address)
	p.taken(t, "1")
	for number := 2; number < 50; number++ { // most bring nothing new
		p.set(t, fmt.Sprint(number), limit("a", number/10))
		p.taken(t, fmt.Sprint(number))
	}
	if sent, heard := len(p.events.with(`"what":"sent"`)), len(p.events.with(`"what":"recv"`)); heard > sent+1 {
		t.Fatalf("%d requests for %d responses", heard, sent)
	}
}

func TestBadLimitsBecomeNoStormAndAreMended(t *testing.T) {
	p := startPlane(t, "127.0.0.1:0")
	p.set(t, "1", limit("a", 5))
	s := serve(t, p.address)
	p.taken(t, "1")
	bad := object{"name": "a", "domain": "a", "descriptors": []object{{"key": ""}}}
	p.set(t, "2", bad)
	refusal := p.await(t, "recv")
	if !strings.Contains(refusal.Refusal, "descriptor has empty key") || refusal.Version != "1" {
		t.Fatalf("%+v", refusal)
	}
	time.Sleep(3 * time.Second) // what is counted is how often it is refused in this time
	// By the waits of 0.25 s, 0.5, 1 and 2 there are three more at most.
	count := len(p.events.with(`"refusal":"`))
	if count > 5 {
		t.Fatalf("%d refusals in 3 s", count)
	}
	s.mustHave(t, line("a", 5))
	if !s.healthy(t) || s.ask(t, "a", "k", "v") != "OK" {
		t.Fatal("a refusal changes nothing")
	}
	begin := time.Now()
	p.set(t, "3", limit("a", 4))
	p.taken(t, "3")
	s.mustHave(t, line("a", 4))
	t.Logf("%d refusals in 3 s; the mended limits were in force after %v", count, time.Since(begin))
}

func TestTenThousandDescriptorsAreLiveSoon(t *testing.T) {
	const number = 10_000
	p := startPlane(t, "127.0.0.1:0")
	s := serve(t, p.address)
	shortest, least := patience, patience
	for round := 1; round <= 5; round++ {
		all := make([]object, number)
		for i := range all {
			all[i] = object{"key": "k", "value": fmt.Sprintf("v%d-%d", round, i), "rate_limit": object{"unit": "YEAR", "requests_per_unit": 1}}
		}
		version := fmt.Sprint(round)
		before := s.used(t)
		p.set(t, version, object{"name": "a", "domain": "a", "descriptors": all})
		sent, at, _ := p.taken(t, version)
		least = min(least, s.used(t)-before)
		// In force by now, as the limits before had no such value.
		last := fmt.Sprintf("v%d-%d", round, number-1)
		if codes := []string{s.ask(t, "a", "k", last), s.ask(t, "a", "k", last)}; !slices.Equal(codes, []string{"OK", "OVER_LIMIT"}) {
			t.Fatalf("round %d: %v", round, codes)
		}
		shortest = min(shortest, at.Sub(sent))
	}
	if found := len(s.limits(t)); found != number {
		t.Fatalf("%d limits in force", found)
	}
	t.Logf("%d descriptors: taken %v after they were sent, with %v of processor time, the least of 5", number, shortest, least)
	// Time on the clock would be that of a busy machine.
	if least > time.Second {
		t.Fatal("late")
	}
}

func TestTheControlPlaneStartsAnewWithTheSameVersion(t *testing.T) {
	p := startPlane(t, "127.0.0.1:0")
	p.set(t, "1", limit("a", 5))
	s := serve(t, p.address)
	p.taken(t, "1")
	for number := range 3 {
		p.kill()
		s.mustHave(t, line("a", 5+number))
		if !s.healthy(t) {
			t.Fatal("not healthy without a control plane")
		}
		p = startPlane(t, p.address)
		p.set(t, "1", limit("a", 6+number))
		if first := p.await(t, "recv"); first.Version != "" || first.Nonce != "" || first.Node != "envoy-ratelimit" {
			t.Fatalf("the first request of a new stream: %+v", first)
		}
		p.taken(t, "1")
		s.mustHave(t, line("a", 6+number))
	}
}

func TestAControlPlaneWithoutASnapshotIsSilent(t *testing.T) {
	p := startPlane(t, "127.0.0.1:0")
	p.set(t, "1", limit("a", 5))
	s := serve(t, p.address)
	p.taken(t, "1")
	p.kill()
	p = startPlane(t, p.address)
	p.await(t, "recv")
	s.mustHave(t, line("a", 5))
	p.tell(t, object{"clear": true})
	p.await(t, "done")
	s.mustHave(t, line("a", 5))
}

type authority struct {
	folder, name string
	key          *rsa.PrivateKey
	certificate  *x509.Certificate // its subject has a serial number too, as it is not that of the server's certificate
}

func newAuthority(t *testing.T, folder, name string) *authority {
	t.Helper()
	a := &authority{folder: folder, name: name}
	a.key, a.certificate = a.make(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name, SerialNumber: "1"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, name)
	return a
}

// make writes NAME.crt and NAME.key, as Envoy Gateway makes them: RSA, key usage, no extended key usage.
func (a *authority) make(t *testing.T, template *x509.Certificate, name string) (*rsa.PrivateKey, *x509.Certificate) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	parent, by := template, key
	if a.certificate != nil {
		parent, by = a.certificate, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	write := func(suffix, kind string, bytes []byte) {
		text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes})
		if err := os.WriteFile(filepath.Join(a.folder, name+suffix), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(".crt", "CERTIFICATE", der)
	write(".key", "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return key, made
}

func (a *authority) sign(t *testing.T, name, subject string, names ...string) {
	t.Helper()
	a.make(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: subject}, DNSNames: names,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment}, name)
}

// secured starts a control plane with Envoy Gateway's TLS, and says how sluice has to ask it.
func securedPlane(t *testing.T) (*plane, *authority, []string) {
	t.Helper()
	a := newAuthority(t, t.TempDir(), "envoy-gateway")
	a.sign(t, "server", "envoy-gateway", "envoy-gateway", "envoy-gateway.ns", "localhost")
	a.sign(t, "tls", "*", "*.ns")
	path := func(name string) string { return filepath.Join(a.folder, name) }
	p := startPlane(t, "127.0.0.1:0", "-certificate", path("server.crt"), "-key", path("server.key"),
		"-clients", path("envoy-gateway.crt"))
	return p, a, []string{
		"CONFIG_GRPC_XDS_SERVER_USE_TLS=true", "CONFIG_GRPC_XDS_SERVER_TLS_CACERT=" + path("envoy-gateway.crt"),
		"CONFIG_GRPC_XDS_CLIENT_TLS_CERT=" + path("tls.crt"), "CONFIG_GRPC_XDS_CLIENT_TLS_KEY=" + path("tls.key")}
}

func (p *plane) byName(name string) string {
	return name + p.address[strings.LastIndexByte(p.address, ':'):]
}

func TestMutualTlsAsEnvoyGatewayHasIt(t *testing.T) {
	p, a, environment := securedPlane(t)
	p.set(t, "1", limit("a", 5))
	s := serve(t, p.byName("localhost"), environment...)
	if shaken := p.await(t, "shaken"); shaken.Server != "localhost" {
		t.Fatalf("the server's name in the handshake: %+v", shaken)
	}
	p.taken(t, "1")
	s.mustHave(t, line("a", 5))
	// All certificates are renewed, by the same authority, while the stream goes on.
	a.sign(t, "server", "envoy-gateway", "localhost")
	a.sign(t, "tls", "*", "*.ns")
	p.set(t, "2", limit("a", 6))
	p.taken(t, "2")
	address := p.address
	p.kill()
	p = startPlane(t, address, "-certificate", filepath.Join(a.folder, "server.crt"), "-key",
		filepath.Join(a.folder, "server.key"), "-clients", filepath.Join(a.folder, "envoy-gateway.crt"))
	p.set(t, "1", limit("a", 7))
	p.taken(t, "1")
	s.mustHave(t, line("a", 7))
}

func TestTheNameThatIsWantedIsTheNameOfTheHandshake(t *testing.T) {
	p, _, environment := securedPlane(t)
	p.set(t, "1", limit("a", 5))
	serve(t, p.address, append(environment, "CONFIG_GRPC_XDS_SERVER_TLS_SAN=envoy-gateway.ns")...)
	if shaken := p.await(t, "shaken"); shaken.Server != "envoy-gateway.ns" {
		t.Fatalf("the server's name in the handshake: %+v", shaken)
	}
	p.taken(t, "1")
}

func TestFailuresOfTlsAreTold(t *testing.T) {
	for name, change := range map[string]func(a *authority, environment []string) []string{
		"no certificate": func(_ *authority, environment []string) []string { return environment[:2] },
		"of another authority": func(a *authority, environment []string) []string {
			newAuthority(t, a.folder, "stranger").sign(t, "tls", "*", "*.ns")
			return environment
		},
		"the server is of another authority": func(a *authority, environment []string) []string {
			newAuthority(t, a.folder, "stranger")
			return append(environment, "CONFIG_GRPC_XDS_SERVER_TLS_CACERT="+filepath.Join(a.folder, "stranger.crt"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, a, environment := securedPlane(t)
			s := serve(t, p.byName("localhost"), change(a, environment)...)
			refused := p.await(t, "refused")
			told, _ := s.said.await(t, 0, "warning", func(line string) bool {
				return strings.Contains(line, " warning ") && strings.Contains(line, "xDS") && strings.Contains(line, p.byName("localhost"))
			})
			if !strings.Contains(told, "certificate") && !strings.Contains(told, "unknown ca") {
				t.Error(told)
			}
			if len(p.events.with(`"what":"open"`)) > 0 || !s.healthy(t) {
				t.Error("a stream, or not healthy")
			}
			t.Logf("the control plane: %s; sluice: %s", refused.Reason, told)
		})
	}
}

// Without this the test of bad limits would show nothing.
func TestTheControlPlaneAnswersARefusalAtOnce(t *testing.T) {
	p := startPlane(t, "127.0.0.1:0")
	p.set(t, "1", limit("a", 5))
	connection, err := grpc.NewClient(p.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(connection).StreamAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	request := &discovery.DiscoveryRequest{Node: &core.Node{Id: "envoy-ratelimit"}, TypeUrl: resource.RateLimitConfigType}
	for range 100 {
		if err := stream.Send(request); err != nil {
			t.Fatal(err)
		}
		told, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if told.GetVersionInfo() != "1" || len(told.GetResources()) != 1 {
			t.Fatalf("%v", told)
		}
		request.ResponseNonce, request.ErrorDetail = told.GetNonce(), &status.Status{Code: 3, Message: "no"}
	}
}
