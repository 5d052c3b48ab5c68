// What Java programs send: each line says the name of an event and what was heard.
// One file, so that `java Client.java URL` compiles and runs it (JEP 330).

import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

public class Client {
    static URI to;

    public static void main(String[] arguments) throws Exception {
        to = URI.create(arguments[0]);
        // By default it offers HTTP/2 in every first request: Connection: Upgrade, HTTP2-Settings.
        HttpClient offers = HttpClient.newHttpClient();
        for (int number = 1; number <= 3; number++) {
            String name = "java-default-" + number;
            send(offers, name, BodyPublishers.ofByteArray(body(name)));
        }
        send(HttpClient.newHttpClient(), "java-default-chunked", chunked("java-default-chunked"));
        HttpClient.Builder builder = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1);
        HttpClient plain = builder.build();
        send(plain, "java-http1", BodyPublishers.ofByteArray(body("java-http1")));
        send(plain, "java-http1-chunked", chunked("java-http1-chunked"));
        old("java-urlconnection", false);
        old("java-urlconnection-chunked", true);
    }

    static byte[] body(String name) {
        String text = "{\"eventId\":\"" + name + "\",\"deviceId\":\"client\"}";
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static BodyPublisher chunked(String name) {
        InputStream stream = new ByteArrayInputStream(body(name));
        return BodyPublishers.ofInputStream(() -> stream);
    }

    static void send(HttpClient client, String name, BodyPublisher body) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(to)
            .timeout(Duration.ofSeconds(10))
            .header("Content-Type", "application/json")
            .POST(body)
            .build();
        var heard = client.send(request, BodyHandlers.ofString());
        System.out.println(name + " " + heard.statusCode() + " " + heard.body());
    }

    static void old(String name, boolean chunked) throws Exception {
        var connection = (HttpURLConnection) to.toURL().openConnection();
        connection.setDoOutput(true);
        connection.setReadTimeout(10_000);
        if (chunked) {
            connection.setChunkedStreamingMode(7);
        }
        connection.getOutputStream().write(body(name));
        int status = connection.getResponseCode();
        String heard = new String(connection.getInputStream().readAllBytes());
        System.out.println(name + " " + status + " " + heard);
    }
}
